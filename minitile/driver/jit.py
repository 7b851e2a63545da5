"""`@minitile.kernel`: a Python function that compiles itself for what it is called with.

A `Kernel` traces its function once per specialisation. A specialisation is fixed by the compile-time parameters, the
values of captured globals and helpers, the dtypes of tensors annotated without one, the target, which tensors are not
row-major without gaps, and the facts of call_facts.py: what divides dimensions and strides, which strides are 1, which
numbers are so large that indices take 64 bits, and which addresses are not aligned.
Everything else is a run-time value: one compiled kernel serves every size. Where products of dimensions or of scalars
are indices, a launch for which 32 bits do not hold them goes to another compilation (`exact`).

A call goes: captured values unchanged? → bind the arguments → which dimensions are divisible by what → launch.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeGuard, overload

from minitile.backends.registry import backend_of
from minitile.driver.call_facts import CallFacts, stride_names
from minitile.driver.capture import Captures, captures, exact
from minitile.driver.describe_launch import launch_info
from minitile.driver.dispatch import Dispatcher, Executable, caller_location, for_users, raise_for_caller, shorten
from minitile.driver.masked import copied, masked_accesses
from minitile.driver.simulate import simulate
from minitile.hardware import Target
from minitile.ir.core import Kernel as IRKernel
from minitile.ir.diagnostics import (
    InternalError,
    LanguageError,
    LaunchArgumentError,
    Location,
    MinitileError,
    shown,
)
from minitile.ir.types import ALIGNMENT, Dim, DType
from minitile.language.math import dtype_of_name
from minitile.language.scalars import is_number, python_number
from minitile.language.tracing.context import active
from minitile.language.tracing.signature import Parameter, Signature, read_signature
from minitile.language.tracing.trace import TraceInput, tensor_shape, tensor_strides, trace_kernel
from minitile.runtime.arrays import Place, describe, row_major
from minitile.runtime.bind import gapped
from minitile.runtime.errors import LaunchError
from minitile.runtime.launch_info import ScalarArg, TensorArg
from minitile.target import parse_target, target_at

if TYPE_CHECKING:
    from minitile.runtime.launcher_base import Prepared
    from minitile.runtime.sim import Report

MOST_CAPTURED = 16  # sets of captured values whose specialisations a kernel keeps
Constants = tuple[tuple[str, Any], ...]
Dtypes = tuple[tuple[str, DType], ...]


@dataclass(frozen=True)
class Spec:
    """A tensor that is not there yet: `shape` holds sizes, or names for sizes that nothing is known of; `strides`
    likewise (None: row-major without gaps); aligned: its address is a multiple of 16 bytes."""

    shape: tuple[int | str, ...]
    dtype: DType
    strides: tuple[int | str, ...] | None = None
    aligned: bool = True


@for_users
def spec(
    shape: tuple[int | str, ...] | int | str,
    dtype: Any,
    strides: tuple[int | str, ...] | int | str | None = None,
    aligned: bool = True,
) -> Spec:
    """Describes a tensor for `compile` and `trace`: `spec((8192, "K"), "bfloat16")`.

    Args:
        shape: sizes, of which the compiler learns only what divides them, and names of sizes that nothing is known of.
        dtype: a dtype, or its name.
        strides: in elements, one for each dimension, likewise; None for a tensor that is row-major without gaps.
        aligned: whether its address is a multiple of 16 bytes.

    Raises:
        LanguageError: an unknown dtype, what is neither a size nor a name, or another number of strides.
    """
    sizes = _numbers("shape", shape, 0)
    steps = None if strides is None else _numbers("strides", strides, -(2**63))
    if steps is not None and len(steps) != len(sizes):
        raise LanguageError(f"a spec of {len(sizes)} dimensions has {len(steps)} strides", caller_location())
    return Spec(sizes, dtype_of_name(dtype), steps, aligned)


def _numbers(what: str, given: Any, least: int) -> tuple[int | str, ...]:
    numbers = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    for n in numbers:
        if not (isinstance(n, str) or (is_number(n) and _is_whole(python_number(n), least))):
            bounds = "0 to 2^63 - 1" if least == 0 else "-2^63 to 2^63 - 1"
            hint = f'whole numbers from {bounds}; where one is unknown, a name: spec((1024, "N"), "float16")'
            raise LanguageError(f"the {what} of a spec has {shown(n)}", caller_location(), hint)
    return tuple(n if isinstance(n, str) else int(python_number(n)) for n in numbers)


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...


@overload
def kernel(
    *,
    target: str | Target = "auto",
    passes: Mapping[str, bool] | None = None,
    warp_specialize: bool | None = None,
) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    target: str | Target = "auto",
    passes: Mapping[str, bool] | None = None,
    warp_specialize: bool | None = None,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Marks a function as a kernel: `@kernel` or `@kernel(target="sm_80")`. Gives a `Kernel`.

    Args:
        function: the function; its parameters are T.Tensor, a dtype (a run-time scalar), or compile-time.
        target: for calls; "auto" is MINITILE_TARGET, else the device that the arrays are on, or sm_80 in the simulator.
        passes: leaves out passes by name, {"licm": False}.
        warp_specialize: False leaves out `warp_specialize`, which makes roles of warps on sm_90a: then the warps that
            compute issue TMA's copies themselves (`tma_multistage`); with passes={"tma_multistage": False} besides the
            code is that of sm_80.
    """
    around = dict(sys._getframe(1).f_locals)

    @for_users
    def decorate(f: Callable[..., Any]) -> Kernel:
        if not isinstance(f, FunctionType):
            raise LanguageError(f"@kernel is for functions, not {f!r}", caller_location())
        return Kernel(f, read_signature(f, around), target, _switches(passes, warp_specialize))

    return decorate if function is None else decorate(function)


def _switches(passes: Mapping[str, bool] | None, warp_specialize: bool | None) -> dict[str, bool]:
    roles = {} if warp_specialize is None else {"warp_specialize": bool(warp_specialize)}
    return {**(passes or {}), **roles}


_METHODS = 256  # objects whose kernels one method keeps


class Kernel:
    """A kernel function. Call it on arrays, or `compile` it without any."""

    def __init__(
        self,
        function: FunctionType,
        signature: Signature,
        target: str | Target = "auto",
        passes: Mapping[str, bool] | None = None,
    ) -> None:
        self.function = function
        self.signature = signature
        self.target = target if target == "auto" else parse_target(target)
        self.passes = dict(passes or {})
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        self._parameters = {p.name: p for p in signature.parameters}
        self._names = [p.name for p in signature.parameters if p.kind != "self"]
        self._owners = {p.name: p.default for p in signature.parameters if p.kind == "self"}
        self._methods: dict[int, Kernel] = {}  # of objects, by their id: each keeps its own
        self._runtime = [p.name for p in signature.runtime]
        self._captures = captures(function, self._owners)
        self._tables: OrderedDict[Any, dict[Any, Dispatcher]] = OrderedDict()  # the captured values used last come last
        self._table = self._table_of(self._captures)
        # Calls with exactly the run-time arguments, when nothing more is needed to know the specialisation.
        simple = self._names[: len(self._runtime)] == self._runtime and all(not p.required for p in signature.constants)
        typed = all(p.dtype is not None for p in signature.runtime)
        self._count = len(self._runtime) if simple and typed else -1
        self._plain: Callable[..., None] | None = None

    def __repr__(self) -> str:
        return f"<minitile.Kernel {self.__name__}({', '.join(self._names)})>"

    def __get__(self, owner: Any, kind: type | None = None) -> Kernel:
        """A kernel in a class is a method: of an object it is the kernel whose first parameter that is, at compile
        time. What the object holds is a part of what is compiled, as with captured variables."""
        parameters = self.signature.parameters
        if owner is None or not parameters or parameters[0].kind != "constant" or not parameters[0].required:
            return self
        known = self._methods.get(id(owner))
        if known is None:
            if len(self._methods) >= _METHODS:
                self._methods.pop(next(iter(self._methods)))
            known = Kernel(self.function, self.signature.bound_to(owner), self.target, self.passes)
            self._methods[id(owner)] = known
        return known

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Runs the kernel on the arrays' device and current stream; on NumPy arrays, in the simulator.

        Arguments are the signature's parameters, by position or name. Raises LaunchArgumentError for what does not fit.
        """
        try:
            if self._plain is not None and not kwargs and len(args) == self._count and self._captures.current():
                self._plain(*args)
                return
            dispatcher, runtime = self._dispatcher(args, kwargs)
            dispatcher.call(*runtime)
        except MinitileError as error:
            shorten(error)
            raise

    @for_users
    def prepare(self, *args: Any, **kwargs: Any) -> Prepared:
        """A launch on these very GPU arrays, ready to be repeated by calling it."""
        dispatcher, runtime = self._dispatcher(args, kwargs)
        return dispatcher.executable(*runtime).prepare(*runtime)

    @for_users
    def configured(self, **constants: Any) -> Kernel:
        """The same kernel with other defaults of compile-time parameters: `matmul.configured(block_M=64)`. Raises
        LaunchArgumentError for what is no compile-time parameter."""
        for name in constants:
            if name not in self._parameters or self._parameters[name].kind != "constant":
                raise self._refused(f"has no compile-time parameter '{name}'")
        parameters = [replace(p, default=constants.get(p.name, p.default)) for p in self.signature.parameters]
        return Kernel(self.function, Signature(tuple(parameters)), self.target, self.passes)

    @for_users
    def executable(self, *args: Any, **kwargs: Any) -> Executable:
        """The specialisation that a call with these arguments would run; compiled now if need be."""
        dispatcher, runtime = self._dispatcher(args, kwargs)
        return dispatcher.executable(*runtime)

    @for_users
    def trace(self, *specs: Any, **constants: Any) -> IRKernel:
        """The traced IR, before any pass."""
        return self._described(specs, constants).trace()

    @for_users
    def compile(
        self,
        *specs: Any,
        target: str | Target = "auto",
        passes: Mapping[str, bool] | None = None,
        warp_specialize: bool | None = None,
        **constants: Any,
    ) -> CompiledKernel:
        """Compiles without running; no GPU is needed.

        Args:
            specs: a `spec` (or an array) for each tensor, in order; none at all means that nothing is known of any
                size.
            target: "sm_80", …, or "auto" for the device that is there.
            passes: passes to leave out, {"licm": False}.
            warp_specialize: False, on sm_90a: no roles of warps, as for `kernel`.
            constants: compile-time parameters.
        """
        case = self._described(specs, constants)
        return CompiledKernel(case, parse_target(target), {**self.passes, **_switches(passes, warp_specialize)})

    # Specialisation ------------------------------------------------------------------------------------------------

    def _dispatcher(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Dispatcher, list[Any]]:
        """The dispatcher for a call's compile-time parameters, and the run-time arguments in order."""
        trace = active()
        if trace is not None:
            raise trace.error(f"the kernel {self.__name__} is called in a kernel", "call a plain function instead")
        self._refresh()
        given = self._bound(args, kwargs)
        constants = self._constants(given)
        runtime = [given[n] for n in self._runtime]
        dtypes = tuple(
            (p.name, _array_dtype(given[p.name])) for p in self.signature.runtime if p.kind == "tensor" and not p.dtype
        )
        key = _key(constants), dtypes, ()
        dispatcher = self._table.get(key)
        if dispatcher is None:
            dispatcher = self._table[key] = self._new_dispatcher(self._table, constants, dtypes)
            if not kwargs and len(args) == self._count:
                self._plain = dispatcher.call
        return dispatcher, runtime

    def _refresh(self) -> None:
        """Captured values may have changed since the last compilation."""
        if not self._captures.current():
            self._captures = captures(self.function, self._owners)
            self._plain = None
            self._table = self._table_of(self._captures)

    def _table_of(self, captured: Captures) -> dict[Any, Dispatcher]:
        """The dispatchers for captured values; of those that a kernel had long ago there are none any more."""
        key = captured.key()
        found = self._tables.setdefault(key, {})
        self._tables.move_to_end(key)
        if len(self._tables) > MOST_CAPTURED:
            self._tables.popitem(last=False)
        return found

    def _new_dispatcher(
        self, table: dict[Any, Dispatcher], constants: Constants, typed: Dtypes, strided: tuple[str, ...] = ()
    ) -> Dispatcher:
        """For calls in which, of the tensors annotated without strides, `strided` are not row-major without gaps. Other
        calls go to a dispatcher of their own, in the same table."""
        dtypes = dict(typed)
        signature = self._signature_args(constants, dtypes, strided)
        facts = CallFacts(signature)
        compiled: dict[Any, Executable] = {}

        def compile(place: Place, found: tuple[int, ...], exact: bool) -> Executable:
            known = facts.read(found)
            case = Case(self, constants, dtypes, known.divisors, known.large, exact, (), known.strides, known.unaligned)
            case = replace(case, same=self._same(case, facts.twins, known.equal))
            target = self.target_for(place)
            numbers = tuple(case.divisors.items()), tuple(case.strides.items())
            key = target, *numbers, case.large, exact, case.same, case.unaligned
            if key not in compiled:
                compiled[key] = CompiledKernel(case, target, self.passes).executable
            return compiled[key]

        def elsewhere(args: tuple[Any, ...]) -> Dispatcher | None:
            more = gapped(signature, args)
            if not more:
                return None
            names = tuple(a.name for a in signature if a.name in {*strided, *more})
            key = _key(constants), typed, names
            if key not in table:
                table[key] = self._new_dispatcher(table, constants, typed, names)
            return table[key]

        return Dispatcher(signature, facts.exprs, compile, elsewhere)

    def _same(self, case: Case, twins: Sequence[tuple[str, str]], equal: Sequence[int]) -> tuple[tuple[str, str], ...]:
        """Of the pairs whose addresses are equal those that matter: one array under two names, and it is written."""
        if not any(equal):
            return ()
        from minitile.driver.pipeline import written_tensors

        written = {*written_tensors(case.trace())}
        first: dict[str, str] = {}
        for (a, b), alike in zip(twins, equal, strict=True):
            if alike:
                first.setdefault(b, first.get(a, a))
        used = {one for one in first.values() if written & {one, *(b for b, a in first.items() if a == one)}}
        return tuple((a, b) for b, a in first.items() if a in used)

    def target_for(self, place: Place) -> Target:
        """What is compiled for arrays there."""
        return self.target if isinstance(self.target, Target) else target_at(place.kind, place.index)

    def _signature_args(
        self, constants: Constants, dtypes: Mapping[str, DType], strided: Sequence[str] = ()
    ) -> list[TensorArg | ScalarArg]:
        """strided: the tensors that have strides although their annotation says none."""
        values = dict(constants)
        args: list[TensorArg | ScalarArg] = []
        for p in self.signature.runtime:
            if p.kind == "tensor":
                dtype = p.dtype or dtypes[p.name]
                args.append(TensorArg(p.name, dtype.name, tensor_shape(p, values), tensor_strides(p, values)))
            else:
                assert p.dtype is not None
                args.append(ScalarArg(p.name, p.dtype.name))
        return stride_names(args, strided)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by parameter, defaults filled in."""
        if len(args) > len(self._names):
            raise self._refused(f"takes {len(self._names)} arguments, not {len(args)}")
        given = dict(zip(self._names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self._parameters:
                raise self._refused(f"has no parameter '{name}'", f"its parameters are {', '.join(self._names)}")
            if name in given:
                raise self._refused(f"got '{name}' twice")
            given[name] = value
        for p in self.signature.parameters:
            if p.name not in given:
                if p.required:
                    raise self._refused(f"lacks the argument '{p.name}'")
                given[p.name] = p.default
        return given

    def _constants(self, given: Mapping[str, Any]) -> Constants:
        constants = tuple((p.name, _plain(given[p.name])) for p in self.signature.constants)
        for name, value in constants:
            if hasattr(value, "shape") and hasattr(value, "dtype"):
                raise self._refused(
                    f"is given an array for '{name}' (shape {tuple(value.shape)}, {value.dtype}), which is a "
                    "compile-time parameter, having no annotation",
                    f'annotate it: {name}: T.Tensor(("M", "N"), T.float32)',
                )
            try:
                hash(value)
            except TypeError:
                hint = f"'{name}' has no T.Tensor or dtype annotation, so it is compile-time: pass something hashable"
                what = f"cannot tell specialisations apart by {name}={shown(value)}"
                raise self._refused(what, hint) from None
        return constants

    def _refused(self, what: str, hint: str = "") -> LaunchArgumentError:
        return LaunchArgumentError(f"the kernel {self.__name__} {what}", caller_location(), hint)

    def _described(self, specs: tuple[Any, ...], constants: dict[str, Any]) -> Case:
        """The case that specs and constants describe."""
        self._refresh()
        tensors = [p for p in self.signature.runtime if p.kind == "tensor"]
        # A spec for each tensor; specs of scalars may be left out.
        given = [s for s in specs if not isinstance(s, (bool, int, float))]
        if given and len(given) != len(tensors):
            raise self._refused(f"has {len(tensors)} tensors, and {len(given)} specs are given")
        unknown = [n for n in constants if n not in self._parameters or self._parameters[n].kind != "constant"]
        if unknown:
            known = [*(p.name for p in self.signature.constants), "target", "passes", "warp_specialize"]
            close = get_close_matches(unknown[0], known, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise self._refused(f"has no compile-time parameter '{unknown[0]}'", hint)
        missing = [p.name for p in self.signature.constants if p.required and p.name not in constants]
        if missing:
            raise self._refused(f"lacks the compile-time parameter '{missing[0]}'")
        fixed = self._constants({p.name: constants.get(p.name, p.default) for p in self.signature.constants})
        described = [_as_spec(s) for s in given]
        dtypes: dict[str, DType] = {}
        sizes: dict[str, int] = {}
        for p, s in zip(tensors, described, strict=False):
            self._fit(p, s, dict(fixed), dtypes, sizes)
        for p in tensors:
            if p.dtype is None and p.name not in dtypes:
                raise self._refused(f"has a tensor {p.name} of any dtype", "give specs to compile it")
        pairs = list(zip(tensors, described, strict=False))
        strided = [p.name for p, s in pairs if s.strides is not None and tensor_strides(p, dict(fixed)) is None]
        args = self._signature_args(fixed, dtypes, strided)
        for a in args:
            if isinstance(a, TensorArg):
                self._fit_strides(a, next((s for p, s in pairs if p.name == a.name), None), sizes)
        found = CallFacts(args).of_numbers(sizes, tuple(p.name for p, s in pairs if not s.aligned))
        return Case(self, fixed, dtypes, found.divisors, found.large, strides=found.strides, unaligned=found.unaligned)

    def _fit_strides(self, arg: TensorArg, s: Spec | None, sizes: dict[str, int]) -> None:
        """The same of its strides."""
        if arg.strides is None or s is None:
            return
        have = s.strides if s.strides is not None else row_major(s.shape) if _whole_numbers(s.shape) else ()
        for axis, (want, stride) in enumerate(zip(arg.strides, have, strict=False)):
            if isinstance(stride, str):
                continue
            if isinstance(want, int) and want != stride:
                raise self._refused(f"takes {arg.name} with a stride of {want} in dimension {axis}, not {stride}")
            if isinstance(want, str) and sizes.setdefault(want, stride) != stride:
                raise self._refused(f"has {want} = {sizes[want]} from one spec and {stride} from {arg.name}")

    def _fit(
        self, p: Parameter, s: Spec, constants: dict[str, Any], dtypes: dict[str, DType], sizes: dict[str, int]
    ) -> None:
        """Check a spec against its parameter; note what it says."""
        shape = tensor_shape(p, constants)
        if len(s.shape) != len(shape):
            raise self._refused(f"takes {p.name} with {len(shape)} dimensions, not {len(s.shape)}")
        if p.dtype is not None and s.dtype is not p.dtype:
            raise self._refused(f"takes {p.name} as {p.dtype}, not {s.dtype}")
        if p.dtype is None:
            dtypes[p.name] = s.dtype
        for axis, (want, have) in enumerate(zip(shape, s.shape, strict=True)):
            if isinstance(have, str):
                continue
            if isinstance(want, int) and want != have:
                raise self._refused(f"takes {p.name} with {want} elements in dimension {axis}, not {have}")
            if isinstance(want, str) and sizes.setdefault(want, have) != have:
                raise self._refused(f"has {want} = {sizes[want]} from one spec and {have} from {p.name}")


@dataclass(frozen=True)
class Case:
    """One specialisation of a kernel: everything that the compiler knows. large: the dimensions that may be 2^30 and
    more; exact: the launch checks nothing but dimensions for indices to be right; same: (first, other) tensors of the
    signature that are one array, of which some are written; strides: of the tensors that are not row-major without
    gaps; unaligned: those whose address need be no multiple of 16 bytes."""

    kernel: Kernel
    constants: Constants
    dtypes: Mapping[str, DType]
    divisors: Mapping[str, int]
    large: tuple[str, ...] = ()
    exact: bool = False
    same: tuple[tuple[str, str], ...] = ()
    strides: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)
    unaligned: tuple[str, ...] = ()

    def trace(self) -> IRKernel:
        k = self.kernel
        numbers = self.divisors, self.large, self.exact, self.same, self.strides, self.unaligned
        return trace_kernel(k.function, k.signature, TraceInput(dict(self.constants), self.dtypes, *numbers))

    def args(self) -> list[TensorArg | ScalarArg]:
        args = self.kernel._signature_args(self.constants, self.dtypes)
        lying = self.strides
        return [replace(a, strides=lying[a.name]) if isinstance(a, TensorArg) and a.name in lying else a for a in args]


class CompiledKernel:
    """One specialisation, compiled for one target. Callable on arrays that it was compiled for.

    Attributes:
        asm: texts by stage: "traced_ir", "tile_ir", "thread_ir", then "ptx", or "llvm" and "gcn"
        launch_info: grid, block, shared bytes, argument layout: plain data
        timings: milliseconds: "trace", "passes", "ptx" (or "llvm" and "gcn"), and "assemble" once that has happened
    """

    def __init__(self, case: Case, target: Target, passes: Mapping[str, bool]) -> None:
        from minitile.driver.pipeline import compile_ir

        self.case = case
        self.target = target
        self.backend = backend_of(target)
        self.passes = dict(passes)
        start = time.perf_counter()
        traced = case.trace()
        middle = time.perf_counter()
        with _bugs_said(case.kernel):
            result = compile_ir(traced, target, self.passes)
        self._notes = result.notes
        self.pass_timings = {n: spent for n, spent in result.timings.items() if not n.startswith("write_")}
        self.timings = {  # without the import of the backend, which compile_ir begins with
            "trace": (middle - start) * 1e3,
            "passes": sum(self.pass_timings.values()),
            **{name: result.timings[f"write_{name}"] for name in result.assembly},
        }
        self.launch_info = launch_info(result, case)
        self.asm: Mapping[str, str] = _Texts(self, result.assembly)
        self.text = list(result.assembly.values())[-1]
        program = self.backend.program(result.assembly, self.launch_info.entry, target)
        program.timings = self.timings
        self.executable = Executable(self.launch_info, program, self._run_in_simulator, result.fits)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the compiler could not do for this kernel, and why; once assembled, what the assembler says of it."""
        return (*self._notes, *self.executable.remarks)

    def __repr__(self) -> str:
        return f"<minitile.CompiledKernel {self.case.kernel.__name__} for {self.target}>"

    def __call__(self, *args: Any) -> None:
        """Runs on the run-time arguments of the signature, in order."""
        try:
            self.executable(*args)
        except MinitileError as error:
            shorten(error)
            raise

    @for_users
    def prepare(self, *args: Any) -> Prepared:
        """A launch on these very GPU arrays, ready to be repeated by calling it."""
        return self.executable.prepare(*args)

    @for_users
    def simulate(
        self, *args: Any, schedule: str = "lazy", seed: int = 0, check: bool = True, report_masked: bool = False
    ) -> Report:
        """Executes the assembly on NumPy arrays. Raises RaceError, SimulationError, LaunchArgumentError.

        Args:
            args: the run-time arguments of the signature, in order.
            schedule: when asynchronous copies land: "eager", "lazy" or "random" (by `seed`).
            seed: see there.
            check: whether to look for races.
            report_masked: the report's `masked` lists the accesses that bounds cut off, by source line; runs twice.
        """
        self._bind_on_cpu(args)
        with _bugs_said(self.case.kernel):
            before = copied(args) if report_masked else []
            report = simulate(self.launch_info, self.text, args, schedule, seed, check, backend=self.backend)
            if report_masked:
                report.masked = masked_accesses(self, before)
            return report

    @property
    @for_users
    def assembled(self) -> Any:
        """The cubin for the target with what the assembler says of it (`Assembled`); for NVIDIA targets."""
        return self.executable.program.assembled

    @property
    @for_users
    def binary(self) -> bytes:
        """The cubin, or AMD's code object (hsaco). Raises AssemblerMissing where no assembler, TargetError where no
        linker is installed. A kernel with wgmma wants a
        `ptxas`: where there is none, the cubin may be slower than what a launch runs, with an AssemblerWarning."""
        return self.executable.program.binary

    @property
    @for_users
    def registers(self) -> int:
        """Registers per thread: of what was launched, else of the cubin."""
        return self.executable.program.costs().registers

    @property
    @for_users
    def spills(self) -> int:
        """Bytes per thread that are spilled (stores plus loads; AMD: bytes of scratch), likewise."""
        return self.executable.program.costs().spills

    def _run_in_simulator(self, args: tuple[Any, ...]) -> None:
        with _bugs_said(self.case.kernel):
            simulate(self.launch_info, self.text, args, backend=self.backend)

    def _bind_on_cpu(self, args: tuple[Any, ...]) -> None:
        try:
            _, place = self.executable._bind(*args)
        except LaunchError as error:
            raise_for_caller(error)
        if place.kind != "cpu":
            raise LaunchArgumentError(
                f"simulate works on NumPy arrays, not on tensors on {place}", caller_location(), "copy them to the host"
            )


@contextmanager
def _bugs_said(kernel: Kernel) -> Iterator[None]:
    """An unforeseen exception becomes an InternalError that names the kernel."""
    try:
        yield
    except (MinitileError, LaunchError, MemoryError):
        raise
    except Exception as error:
        code = kernel.function.__code__
        place = Location.of_line(code.co_filename, code.co_firstlineno, code.co_name)
        raise InternalError(f"{type(error).__name__}: {error}", place) from error


class _Texts(Mapping[str, str]):
    """The texts of a compiled kernel. Those of the IR are made when they are asked for, by compiling again."""

    _STAGES = ("traced_ir", "tile_ir", "thread_ir")

    def __init__(self, owner: CompiledKernel, assembly: Mapping[str, str]) -> None:
        self._owner = owner
        self._texts = dict(assembly)
        self._names = (*self._STAGES, *assembly)

    def __getitem__(self, name: str) -> str:
        if name not in self._texts:
            if name not in self._names:
                raise KeyError(f"{name!r}; there are {', '.join(self._names)}")
            from minitile.driver.pipeline import compile_ir

            owner = self._owner
            result = compile_ir(owner.case.trace(), owner.target, owner.passes, texts=True)
            self._texts = {**result.texts, **self._texts}
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _plain(x: Any) -> Any:
    """A NumPy scalar as a Python number."""
    return python_number(x) if is_number(x) else x


def _key(constants: Constants) -> tuple[Any, ...]:
    return tuple((name, exact(value)) for name, value in constants)


def _as_spec(x: Any) -> Spec:
    if isinstance(x, Spec):
        return x
    try:
        array = describe(x)
    except LaunchError as error:
        raise LaunchArgumentError(
            f"{shown(x)} is no spec and no array", caller_location(), 'write minitile.spec((1024, "N"), "float16")'
        ) from error
    strides = None if array.contiguous else array.strides
    return Spec(array.shape, dtype_of_name(array.dtype), strides, array.ptr % ALIGNMENT == 0)


def _whole_numbers(shape: tuple[int | str, ...]) -> TypeGuard[tuple[int, ...]]:
    return all(isinstance(n, int) for n in shape)


def _array_dtype(x: Any) -> DType:
    try:
        name = describe(x).dtype
    except LaunchError as error:
        raise_for_caller(error)
    try:
        return dtype_of_name(name)
    except MinitileError as error:
        raise LaunchArgumentError(error.message, caller_location(), error.hint) from None
