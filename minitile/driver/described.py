"""From specs of tensors and compile-time parameters to the specialisation that they describe: `Kernel.compile`."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeGuard

from minitile.driver.call_facts import CallFacts
from minitile.driver.compiled import Case
from minitile.driver.spec import Spec, as_spec
from minitile.ir.types import DType
from minitile.language.tracing.signature import Parameter
from minitile.language.tracing.trace import tensor_shape, tensor_strides
from minitile.runtime.arrays import row_major
from minitile.runtime.launch_info import TensorArg, compile_exprs, mentioned

if TYPE_CHECKING:
    from minitile.driver.jit import Kernel


def described_case(kernel: Kernel, specs: tuple[Any, ...], named: Mapping[str, Any]) -> Case:
    """The case; `specs` for tensors in order, `named` for those by name and the compile-time parameters. Raises
    LaunchArgumentError for what does not fit the signature."""
    parameters = kernel.signature.parameters
    tensors = [p for p in parameters if p.kind == "tensor"]
    given = _specs(kernel, tensors, specs, named)
    absent = tuple(p.name for p in tensors if p.optional and given.get(p.name) is None)
    if absent:
        rest = {n: s for n, s in given.items() if n not in absent}
        constants = {n: value for n, value in named.items() if n not in {p.name for p in tensors}}
        return described_case(kernel._without(absent), (), {**constants, **rest})
    constants = {n: value for n, value in named.items() if n not in {p.name for p in tensors}}
    _check_constants(kernel, constants)
    fixed = kernel._constants({p.name: constants.get(p.name, p.default) for p in kernel.signature.constants})
    values = dict(fixed)
    dtypes: dict[str, DType] = {}
    sizes: dict[str, int] = {}
    known = {p.name: as_spec(given[p.name]) for p in tensors if p.name in given}
    for p in tensors:
        if p.name in known:
            _fit(kernel, p, known[p.name], values, dtypes, sizes)
        elif p.dtype is None:
            raise kernel._refused(f"has a tensor {p.name} of any dtype", "give specs to compile it")
    strided = [n for n, s in known.items() if s.strides is not None]
    strided = [p.name for p in tensors if p.name in strided and tensor_strides(p, values) is None]
    results = kernel._results(fixed, dtypes)
    args = kernel._signature_args(fixed, dtypes, strided, results.made)
    for a in args:
        if isinstance(a, TensorArg) and a.name in known:
            _fit_strides(kernel, a, known[a.name], sizes)
    for made in results.made:  # of what is computed from sizes that are known
        for name, size in zip(made.arg.shape, made.shape, strict=True):
            slots = [*mentioned(size)]
            if isinstance(name, str) and all(n in sizes and kind == "dim" for kind, n in slots):
                (sizes[name],) = compile_exprs([size], slots)(tuple(sizes[n] for _, n in slots))
    found = CallFacts(args).of_numbers(sizes, tuple(n for n, s in known.items() if not s.aligned))
    return Case(
        kernel,
        fixed,
        dtypes,
        found.divisors,
        found.large,
        strides=found.strides,
        unaligned=found.unaligned,
        made=results.made,
    )


def _specs(
    kernel: Kernel, tensors: list[Parameter], specs: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    """What is given for each tensor, by name. Specs of scalars may be left out, those of optional tensors at the end
    and of results as well."""
    given = [s for s in specs if not isinstance(s, (bool, int, float))]
    passed = [p for p in tensors if not p.made]
    if len(given) == len(tensors):
        passed = tensors
    least = max((n + 1 for n, p in enumerate(passed) if not p.optional and p.name not in named), default=0)
    if given and not least <= len(given) <= len(passed):
        raise kernel._refused(f"has {len(passed)} tensors, and {len(given)} specs are given")
    found = {p.name: s for p, s in zip(passed, given, strict=False)}
    for p in tensors:
        if p.name in named:
            if p.name in found:
                raise kernel._refused(f"got '{p.name}' twice")
            found[p.name] = named[p.name]
    return {n: s for n, s in found.items() if s is not None or not kernel._parameters[n].optional}


def _check_constants(kernel: Kernel, constants: Mapping[str, Any]) -> None:
    parameters = kernel._parameters
    unknown = [n for n in constants if n not in parameters or parameters[n].kind != "constant"]
    if unknown:
        known = [*(p.name for p in kernel.signature.constants), "target", "passes", "warp_specialize"]
        close = get_close_matches(unknown[0], known, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        raise kernel._refused(f"has no compile-time parameter '{unknown[0]}'", hint)
    missing = [p.name for p in kernel.signature.constants if p.required and p.name not in constants]
    if missing:
        raise kernel._refused(f"lacks the compile-time parameter '{missing[0]}'")


def _fit(
    kernel: Kernel,
    p: Parameter,
    s: Spec,
    constants: Mapping[str, Any],
    dtypes: dict[str, DType],
    sizes: dict[str, int],
) -> None:
    """Check a spec against its parameter; note what it says."""
    shape = tensor_shape(p, constants)
    if len(s.shape) != len(shape):
        raise kernel._refused(f"takes {p.name} with {len(shape)} dimensions, not {len(s.shape)}")
    if p.dtype is not None and s.dtype is not p.dtype:
        raise kernel._refused(f"takes {p.name} as {p.dtype}, not {s.dtype}")
    if p.dtype is None:
        dtypes[p.name] = s.dtype
    for axis, (want, have) in enumerate(zip(shape, s.shape, strict=True)):
        if isinstance(have, str):
            continue
        if isinstance(want, int) and want != have:
            raise kernel._refused(f"takes {p.name} with {want} elements in dimension {axis}, not {have}")
        if isinstance(want, str) and sizes.setdefault(want, have) != have:
            raise kernel._refused(f"has {want} = {sizes[want]} from one spec and {have} from {p.name}")


def _fit_strides(kernel: Kernel, arg: TensorArg, s: Spec, sizes: dict[str, int]) -> None:
    """The same of its strides."""
    if arg.strides is None:
        return
    have = s.strides if s.strides is not None else row_major(s.shape) if _whole_numbers(s.shape) else ()
    for axis, (want, stride) in enumerate(zip(arg.strides, have, strict=False)):
        if isinstance(stride, str):
            continue
        if isinstance(want, int) and want != stride:
            raise kernel._refused(f"takes {arg.name} with a stride of {want} in dimension {axis}, not {stride}")
        if isinstance(want, str) and sizes.setdefault(want, stride) != stride:
            raise kernel._refused(f"has {want} = {sizes[want]} from one spec and {stride} from {arg.name}")


def _whole_numbers(shape: tuple[int | str, ...]) -> TypeGuard[tuple[int, ...]]:
    return all(isinstance(n, int) for n in shape)
