"""Kernels as functions of JAX: under jax.jit, vmap and grad, on the CPU's simulator and on GPUs.

A traced call becomes one custom call of XLA's foreign function interface, the target `minitile`. Its attribute is a
text: a key that says which kernel it is, and the scalars. When XLA runs the program it calls back into Python
(runtime/xla_ffi.py), where the text finds the kernel, and the buffers' addresses become arrays for its dispatcher, with
the stream that XLA works on:

    kernel(x, 2.0) under jit ──▶ custom_call @minitile {call = "0f3a… [2.0]"} ──▶ dispatcher(X, 2.0, Y)

Functions of JAX change nothing that they are passed: a tensor that a kernel writes is an argument and a result, with
one buffer where XLA need not keep the argument.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from minitile.driver.compiled import Case
from minitile.driver.dispatch import caller_location, for_users, raise_for_caller
from minitile.ir.diagnostics import LanguageError, LaunchArgumentError
from minitile.ir.printer import print_kernel
from minitile.runtime import xla_ffi
from minitile.runtime.arrays import CPU, Place, RawArray, dtype_name
from minitile.runtime.bind import compile_binder
from minitile.runtime.errors import LaunchError
from minitile.runtime.launch_info import TensorArg, slots_of

if TYPE_CHECKING:
    from minitile.driver.jit import Kernel, _Calls

TARGET = "minitile"  # of XLA's custom calls
_DRIVERS = {"cuda": "cuda", "rocm": "hip"}  # the runtime's modules
_KINDS = {"cpu": "cpu", "CUDA": "cuda", "ROCM": "rocm"}  # of places, by XLA's platforms
Gradients = Sequence[str | tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class _Known:
    """What a custom call runs. written: the tensors that are passed and written; returned: the names of the results of
    a call, those of `written` included that the kernel does not return."""

    calls: _Calls
    key: str
    written: tuple[str, ...]

    @property
    def returned(self) -> tuple[str, ...]:
        named = self.calls.results.returned
        return (*named, *(n for n in self.written if n not in named))

    @property
    def tensors(self) -> list[str]:
        """Of those that are passed, in order."""
        return [a.name for a in self.calls.passed if isinstance(a, TensorArg)]

    @property
    def buffers(self) -> list[str]:
        """The custom call's results, in order."""
        return [*(m.name for m in self.calls.results.made), *self.written]


_calls_known: WeakKeyDictionary[_Calls, _Known] = WeakKeyDictionary()
_keys_known: dict[str, _Known] = {}  # XLA may run a program as long as the process lives
_lock = threading.Lock()


@for_users
def jax_op(
    kernel: Kernel,
    *,
    out: str | Sequence[str] = (),
    backward: Kernel | Callable[..., Any] | None = None,
    gradients: Gradients | None = None,
) -> Callable[..., Any]:
    """A function of JAX that runs a kernel: on arrays, and under jax.jit, vmap (one call after another), grad and
    shard_map. Needs JAX 0.5 or newer. On the CPU the simulator computes.

    A kernel that writes nothing but what it returns can be called under jax.jit as it is; this is for the others, and
    for gradients. Scalars are Python numbers: they are part of the compiled program.

    Args:
        kernel: the kernel. The function has its parameters; it returns what the kernel returns, then the new values of
            the other tensors that it is passed and writes, in the signature's order.
        out: names of tensors of the signature that are results only: calls leave them out. Their dimensions are ints
            and names that other tensors have.
        backward: a kernel or a function of JAX that computes gradients. Its parameters are found by name: `grad` is the
            gradient of the (first) result, `grad_Y` that of the result Y; the name of a parameter or of a result of
            `kernel` is that.
        gradients: the arguments whose gradients `backward` returns, in order, a tuple of those that have the same one;
            from the first tensor on, if not given. The gradients of others are zero.

    Returns:
        The function.

    Raises:
        LanguageError: names that are none, a kernel without results. What a call raises is as of kernels; what goes
            wrong when XLA runs the program is an error of JAX with minitile's message.

    Example:
        ```py
        softmax = mt.jax_op(softmax_kernel, backward=softmax_backward)  # (grad, Y) -> dX
        loss = jax.jit(jax.grad(lambda x: softmax(x * 2).sum()))
        ```
    """
    from minitile.driver.jit import Kernel

    _jax()
    if not isinstance(kernel, Kernel):
        raise _wrong(f"{kernel!r} is no kernel", "decorate it by @mt.kernel")
    names = (out,) if isinstance(out, str) else tuple(out)
    if names:
        kernel = _making(kernel, names)
    wanted = None if backward is None else _wanted(backward)
    own = {p.name for p in kernel.signature.parameters}
    for name in " ".join(n if isinstance(n, str) else " ".join(n) for n in gradients or ()).split():
        if name not in own:
            raise _wrong(f"gradients: {name} is none of {', '.join(sorted(own))}")

    @wraps(kernel.function)
    @for_users
    def call(*args: Any, **kwargs: Any) -> Any:
        given = kernel._given(args, kwargs)
        if wanted is None:
            return _run(kernel, given, True)
        assert backward is not None
        return _differentiable(kernel, given, backward, wanted, gradients)

    return call


def by_jax(values: Iterable[Any]) -> bool:
    """Whether a call with these values is JAX's to make: one is traced, or is on a GPU, where work has to be put
    between JAX's own."""
    jax = sys.modules.get("jax")
    array = getattr(jax, "Array", None)
    if jax is None or array is None:  # or half imported
        return False
    return any(isinstance(x, array) and (isinstance(x, jax.core.Tracer) or _on_device(x)) for x in values)


def call_by_jax(kernel: Kernel, given: Mapping[str, Any]) -> Any:
    """A kernel's call with these arguments, none of which it may write."""
    return _run(kernel, given, False)


def _on_device(array: Any) -> bool:
    return any(device.platform != "cpu" for device in array.devices())


def _jax() -> Any:
    """The framework, with the target known to it."""
    try:
        jax = importlib.import_module("jax")
        importlib.import_module("jax.ffi")
    except ImportError as error:
        raise _wrong(f"jax.ffi cannot be imported: {error}", "install JAX 0.5 or newer: pip install jax") from None
    _register(jax)
    return jax


@cache
def _register(jax: Any) -> None:
    """Makes the target known, once: of each platform that there may be."""
    for platform, kind in _KINDS.items():
        made = xla_ffi.handler(partial(_launch, kind), kind != "cpu")
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(made), platform=platform, api_version=1)


def _wrong(what: str, hint: str = "") -> LanguageError:
    return LanguageError(f"mt.jax_op: {what}", caller_location(), hint)


def _making(kernel: Kernel, names: Sequence[str]) -> Kernel:
    """The kernel whose calls make these tensors."""
    from minitile.driver.jit import Kernel

    runtime = [p.name for p in kernel.signature.runtime]
    for name in names:
        if name not in runtime:
            raise _wrong(f"out={name!r} is no tensor of {kernel.__name__}", f"its tensors are {', '.join(runtime)}")
    made = [i for i, p in enumerate(kernel.signature.runtime) if p.made]
    places = [*made, *(runtime.index(n) for n in names)]
    return Kernel(kernel.function, kernel.signature.making(places, caller_location()), kernel.target, kernel.passes)


# Calls ---------------------------------------------------------------------------------------------------------------


def _run(kernel: Kernel, given: Mapping[str, Any], writes: bool) -> Any:
    """The custom call of a kernel with these arguments; `writes` lets it have some that the kernel writes."""
    jax = _jax()
    given = dict(given)
    for p in kernel.signature.runtime:
        x = given.get(p.name)
        if p.kind == "scalar" and isinstance(x, jax.core.Tracer):
            what = f"the scalar {p.name} is traced by JAX, and a scalar is part of the compiled program"
            hint = "let jax.jit have it as a static argument, or make it a tensor of one element"
            raise LaunchArgumentError(f"{kernel.__name__}: {what}", caller_location(), hint)
        if p.kind == "tensor" and x is not None:
            given[p.name] = _array(jax, p.name, x)
    calls, runtime, results = kernel._calls(given)
    if results:
        what = f"{kernel.__name__} is passed its result {next(iter(results))}, and JAX's arrays never change"
        raise LaunchArgumentError(what, caller_location(), "leave it out: the call returns it")
    known = _known(calls)
    if known.written and not writes:
        raise LaunchArgumentError(
            f"{calls.kernel.__name__} writes {known.written[0]}, and this array is read-only, being JAX's",
            caller_location(),
            "mt.jax_op(kernel) returns what the kernel writes; other results are made by T.empty or out_idx",
        )
    if not known.returned:
        raise _wrong(f"{calls.kernel.__name__} has no result", "it returns none, and writes no tensor")
    arrays = {a.name: x for a, x in zip(calls.passed, runtime, strict=True) if isinstance(a, TensorArg)}
    text, shapes = _call_text(known, runtime)
    back = _custom_call(jax, known, arrays, shapes, text)
    values = [back.get(n, arrays.get(n)) for n in known.returned]
    one = calls.results.one if calls.results.returned else True
    return values[0] if one and len(values) == 1 else tuple(values)


def _array(jax: Any, name: str, x: Any) -> Any:
    """A tensor as an array of JAX."""
    numpy = sys.modules["numpy"]
    if not isinstance(x, jax.Array | numpy.ndarray | numpy.generic):
        what = f"{name} is {type(x).__qualname__}, and others are arrays of JAX"
        raise LaunchArgumentError(what, caller_location(), "convert it first: jax.numpy.asarray")
    return jax.numpy.asarray(x)


def _known(calls: _Calls) -> _Known:
    """What is to be known of such calls, found once by tracing the kernel. The key is the same in all processes: XLA's
    programs may come from its cache."""
    from minitile.driver.pipeline import written_tensors

    with _lock:
        known = _calls_known.get(calls)
        if known is None:
            k = calls.kernel
            traced = Case(k, calls.constants, calls.dtypes, {}, made=calls.results.made).trace()
            passed = {a.name for a in calls.passed}
            written = tuple(n for n in written_tensors(traced) if n in passed)
            about = (k.__module__, k.__qualname__, print_kernel(traced), str(calls.args), str(k.target), k.passes)
            key = hashlib.sha256(repr(about).encode()).hexdigest()[:32]
            known = _calls_known[calls] = _keys_known[key] = _Known(calls, key, written)
    return known


def _call_text(known: _Known, runtime: Sequence[Any]) -> tuple[str, list[tuple[int, ...]]]:
    """The custom call's attribute, and the shapes of what the call makes. Raises for arguments that do not fit."""
    calls, given = known.calls, []
    for i, (a, x) in enumerate(zip(calls.passed, runtime, strict=True)):
        given.append(RawArray((i + 1) << 8, tuple(x.shape), dtype_name(x), CPU) if isinstance(a, TensorArg) else x)
    try:
        values, _ = compile_binder(calls.passed)(*given)
    except LaunchError as error:
        raise_for_caller(error)
    scalars = [v for slot, v in zip(slots_of(calls.passed), values, strict=True) if slot[0] == "scalar"]
    return f"{known.key} {json.dumps(scalars)}", list(calls.shapes(*given))


def _custom_call(
    jax: Any, known: _Known, arrays: Mapping[str, Any], shapes: Sequence[tuple[int, ...]], text: str
) -> dict[str, Any]:
    """The results of the custom call by name."""
    made = known.calls.results.made
    of = [jax.ShapeDtypeStruct(s, m.dtype.numpy) for s, m in zip(shapes, made, strict=True)]
    of += [jax.ShapeDtypeStruct(arrays[n].shape, arrays[n].dtype) for n in known.written]
    places = {known.tensors.index(n): len(made) + i for i, n in enumerate(known.written)}
    call = jax.ffi.ffi_call(TARGET, of, vmap_method="sequential", input_output_aliases=places)
    return dict(zip(known.buffers, call(*arrays.values(), call=text), strict=True))


# What XLA calls ------------------------------------------------------------------------------------------------------


def _launch(
    kind: str,
    text: str,
    arguments: Sequence[xla_ffi.Buffer],
    results: Sequence[xla_ffi.Buffer],
    queue: xla_ffi.Queue | None,
) -> None:
    """The launch that a custom call stands for, on a kind of place; a tensor that is written has the result's
    buffer."""
    key, _, rest = text.partition(" ")
    known = _keys_known.get(key)
    if known is None:
        raise RuntimeError(
            f"this program calls a minitile kernel ({key}) that this process has not traced: trace the function that "
            "calls it before a program that was exported is run"
        )
    at = {**dict(zip(known.tensors, arguments, strict=True)), **dict(zip(known.buffers, results, strict=True))}
    scalars, place = iter(json.loads(rest)), CPU
    if queue is not None:
        device = _device_of(kind, at.values()) if queue.device is None else queue.device
        place = Place(kind, device, lambda: queue.stream)
    known.calls.dispatcher().call(
        *(
            RawArray(*at[a.name], a.dtype, place) if isinstance(a, TensorArg) else next(scalars)
            for a in known.calls.args
        )
    )


def _device_of(kind: str, buffers: Iterable[xla_ffi.Buffer]) -> int:
    """Of memory, asked of the driver."""
    driver = importlib.import_module(f"minitile.runtime.{_DRIVERS[kind]}")
    device: int = driver.device_of_pointer(next((b.data for b in buffers if b.data), 0))
    return device


# Gradients -----------------------------------------------------------------------------------------------------------


def _wanted(backward: Kernel | Callable[..., Any]) -> list[tuple[str, bool]]:
    """The parameters of a backward function, and whether it has to be given them."""
    from minitile.driver.jit import Kernel

    if isinstance(backward, Kernel):
        return [(p.name, p.required and not p.optional) for p in backward.signature.parameters if not p.made]
    return [(p.name, p.default is p.empty) for p in inspect.signature(backward).parameters.values()]


def _differentiable(
    kernel: Kernel,
    given: Mapping[str, Any],
    backward: Callable[..., Any],
    wanted: Sequence[tuple[str, bool]],
    gradients: Gradients | None,
) -> Any:
    jax = _jax()
    tensors = [p.name for p in kernel.signature.runtime if p.kind == "tensor" and given.get(p.name) is not None]
    others = {n: x for n, x in given.items() if n not in tensors}
    returned = _returned(jax, kernel, given)
    known = {*given, *returned, "grad", *(f"grad_{n}" for n in returned)}
    for name, required in wanted:
        if required and name not in known:
            raise _wrong(f"backward's parameter {name} is none of {', '.join(sorted(known))}")
    kept = [n for n, _ in wanted if n in (*tensors, *returned)]

    def primal(*arrays: Any) -> Any:
        return _run(kernel, {**others, **dict(zip(tensors, arrays, strict=True))}, True)

    def forward(*arrays: Any) -> Any:
        back = primal(*arrays)
        every = dict(zip(tensors, arrays, strict=True)) | dict(zip(returned, _tuple(back), strict=True))
        return back, tuple(every[n] for n in kept)

    def derivative(saved: Any, slopes: Any) -> Any:
        every = {**others, **dict(zip(kept, saved, strict=True))}
        every |= {f"grad_{n}": g for n, g in zip(returned, _tuple(slopes), strict=True)}
        every["grad"] = every[f"grad_{returned[0]}"]
        back = _tuple(backward(**{n: every[n] for n, _ in wanted if n in every}))
        of = tensors[: len(back)] if gradients is None else gradients
        if len(of) != len(back):
            raise _wrong(f"backward returns {len(back)} arrays, for the gradients of {', '.join(map(str, of))}")
        found: dict[str, Any] = {}
        for names, g in zip(of, back, strict=True):
            found |= dict.fromkeys((names,) if isinstance(names, str) else names, g)
        return tuple(found.get(n) for n in tensors)

    function = jax.custom_vjp(primal)
    function.defvjp(forward, derivative)
    return function(*(_array(jax, n, given[n]) for n in tensors))


def _returned(jax: Any, kernel: Kernel, given: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a call's results."""
    tensors = {p.name for p in kernel.signature.runtime if p.kind == "tensor"}
    arrays = {n: _array(jax, n, x) if n in tensors and x is not None else x for n, x in given.items()}
    return _known(kernel._calls(arrays)[0]).returned


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)
