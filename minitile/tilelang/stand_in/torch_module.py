"""`torch` in compile-only mode: factories of tensors of no content, and names that do nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from minitile.tilelang.stand_in import operations
from minitile.tilelang.stand_in.anything import AnyModule, Anything
from minitile.tilelang.stand_in.tensors import DTYPES, MOST_NUMBERS, Device, Size, StandIn, StandInDtype

_ALIASES = {"half": "float16", "float": "float32", "double": "float64", "int": "int32", "long": "int64"}
_FACTORIES = frozenset(["randn", "rand", "zeros", "ones", "empty", "randint", "full", "normal", "empty_strided"])
_LIKE = frozenset(["randn_like", "rand_like", "zeros_like", "ones_like", "empty_like", "full_like", "randint_like"])


def _shape(given: Any) -> list[int]:
    sizes = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    return [int(n) for n in sizes]


def _factory(name: str) -> Callable[..., StandIn]:
    def make(*args: Any, **named: Any) -> StandIn:
        kind = named.get("dtype")
        if name == "randint":
            whole = named.get("size") or next((a for a in args if isinstance(a, (tuple, list))), ())
            return StandIn(whole, kind or DTYPES["int64"])
        if name in ("full", "normal", "empty_strided"):
            sizes = [a for a in args if isinstance(a, (tuple, list))]
            return _filled(sizes[0] if sizes else named.get("size", ()), kind, args[1] if len(args) > 1 else None)
        given = args or (named.get("size", ()),)
        shape = _shape(given)
        known = {"zeros": 0, "ones": 1}.get(name)
        return _filled(shape, kind, known)

    return make


def _filled(shape: Any, kind: StandInDtype | None, value: Any) -> StandIn:
    dtype = kind or DTYPES["float32"]
    small = int(np.prod([int(n) for n in shape], dtype=np.int64)) <= MOST_NUMBERS
    if small and value is not None and not dtype.is_floating_point and not isinstance(value, (StandIn, tuple, list)):
        return StandIn(shape, dtype, np.full([int(n) for n in shape], value, dtype.numpy))
    return StandIn(shape, dtype)


def _like(x: StandIn, *_: Any, **named: Any) -> StandIn:
    return x.like(None, named.get("dtype"))


def _tensor(values: Any, dtype: StandInDtype | None = None, **_: Any) -> StandIn:
    if isinstance(values, StandIn):
        return values.to(dtype) if dtype else values
    plain = np.array(_numbers(values))
    kind = dtype or DTYPES["float32" if plain.dtype.kind == "f" else "bool" if plain.dtype.kind == "b" else "int64"]
    return StandIn(plain.shape, kind, plain if plain.size <= MOST_NUMBERS else None)


def _numbers(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return [_numbers(v) for v in values]
    return values.item() if isinstance(values, StandIn) else values


def _arange(*bounds: Any, dtype: StandInDtype | None = None, **_: Any) -> StandIn:
    plain = [x.item() if isinstance(x, StandIn) else x for x in bounds]
    numbers = np.arange(*plain)
    kept = numbers if numbers.size <= MOST_NUMBERS else None
    return StandIn(numbers.shape, dtype or DTYPES["int64"], kept)


def _linspace(_: Any, __: Any, steps: int = 100, **named: Any) -> StandIn:
    return StandIn((steps,), named.get("dtype"))


class _Finfo:
    def __init__(self, dtype: StandInDtype) -> None:
        self.bits, self.max, self.min = dtype.bits, 3.0e38, -3.0e38
        self.eps = self.tiny = 1e-7


class _Module(ModuleType):
    """A module of torch: names are found in `_KNOWN`, or are functions that give tensors of no content."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__version__ = "2.9.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _found(self.__name__, name)


def _found(module: str, name: str) -> Any:
    full = f"{module}.{name}".replace("torch.torch", "torch")
    if full == "torch":
        return torch_module("torch")
    if full in _KNOWN:
        return _KNOWN[full]
    if f"{full}" in _MODULES:
        return torch_module(full)
    if module in ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.functional"):
        if name in DTYPES or name in _ALIASES:
            return DTYPES[_ALIASES.get(name, name)]
        if name in _FACTORIES:
            return _factory(name)
        if name in _LIKE:
            return _like
        return _Operation(full)
    return Anything(full)


class _Operation:
    """A function of torch, or a module that is not known: `torch.softmax(x, -1)`, `torch.amp.custom_fwd`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **named: Any) -> Any:
        return operations.apply(self.name.rpartition(".")[2], args, named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(f"{self.name}.{name}")


class _Event:
    def __init__(self, **_: Any) -> None:
        """Nothing is timed."""

    def record(self, *_: Any) -> None: ...

    def synchronize(self) -> None: ...

    def elapsed_time(self, _: Any) -> float:
        return 1.0


class _Properties:
    name, major, minor, multi_processor_count = "NVIDIA H100", 9, 0, 132
    total_memory, gcnArchName = 80 << 30, "gfx942"


class _Context:
    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> _Context:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, function: Any) -> Any:
        return function


class _Function:
    """torch.autograd.Function: apply calls forward, and then backward, so that both are compiled."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        ctx = _Saved()
        found: Any = cls.forward(ctx, *args)  # type: ignore[attr-defined]
        given = found if isinstance(found, tuple) else (found,)
        cls.backward(ctx, *(x.like() if isinstance(x, StandIn) else x for x in given))  # type: ignore[attr-defined]
        return found


class _Saved:
    saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *given: Any) -> None:
        self.saved_tensors = given

    def mark_non_differentiable(self, *_: Any) -> None: ...


class _NnModule:
    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.forward(*args, **named)  # type: ignore[attr-defined]

    def to(self, *_: Any, **__: Any) -> Any:
        return self

    cuda = half = eval = bfloat16 = to

    def parameters(self) -> list[Any]:
        return []

    def register_buffer(self, name: str, value: Any, **_: Any) -> None:
        setattr(self, name, value)


def _nothing(*_: Any, **__: Any) -> None: ...


def _parameter(data: Any = None, *_: Any, **__: Any) -> Any:
    return data


def _decorated(function: Any = None, *_: Any, **__: Any) -> Any:
    return function if callable(function) else lambda f: f


_KNOWN: dict[str, Any] = {
    "torch.Tensor": StandIn,
    "torch.dtype": StandInDtype,
    "torch.device": Device,
    "torch.Size": Size,
    "torch.tensor": _tensor,
    "torch.as_tensor": _tensor,
    "torch.from_numpy": _tensor,
    "torch.arange": _arange,
    "torch.linspace": _linspace,
    "torch.finfo": _Finfo,
    "torch.iinfo": _Finfo,
    "torch.manual_seed": _nothing,
    "torch.set_printoptions": _nothing,
    "torch.set_default_dtype": _nothing,
    "torch.set_default_device": _nothing,
    "torch.set_float32_matmul_precision": _nothing,
    "torch.randperm": lambda n, **named: _arange(n, dtype=named.get("dtype")),
    "torch.eye": lambda n, m=None, **named: StandIn((n, n if m is None else m), named.get("dtype")),
    "torch.no_grad": _Context,
    "torch.inference_mode": _Context,
    "torch.enable_grad": _Context,
    "torch.compile": _decorated,
    "torch.inf": float("inf"),
    "torch.pi": np.pi,
    "torch.nan": float("nan"),
    "torch.strided": None,
    "torch.is_tensor": lambda x: isinstance(x, StandIn),
    "torch.int": DTYPES["int32"],
    "torch.version.hip": None,
    "torch.version.cuda": "13.0",
    "torch.cuda.is_available": lambda: True,
    "torch.cuda.synchronize": _nothing,
    "torch.cuda.empty_cache": _nothing,
    "torch.cuda.set_device": _nothing,
    "torch.cuda.manual_seed": _nothing,
    "torch.cuda.manual_seed_all": _nothing,
    "torch.cuda.current_device": lambda: 0,
    "torch.cuda.device_count": lambda: 1,
    "torch.cuda.get_device_capability": lambda *_: (9, 0),
    "torch.cuda.get_device_name": lambda *_: "NVIDIA H100",
    "torch.cuda.get_device_properties": lambda *_: _Properties(),
    "torch.cuda.Event": _Event,
    "torch.autograd.Function": _Function,
    "torch.nn.Module": _NnModule,
    "torch.nn.Parameter": _parameter,
    "torch.testing.assert_close": _nothing,
    "torch.testing.assert_allclose": _nothing,
    "torch.nn.functional.one_hot": lambda x, num_classes=1: x.like((*x.shape, num_classes)),
    "torch.library.custom_op": lambda *_, **__: _decorated,
}
_MODULES = {
    "torch.nn", "torch.nn.functional", "torch.cuda", "torch.testing", "torch.autograd", "torch.linalg", "torch.special",
    "torch.version", "torch.backends", "torch.utils", "torch.functional", "torch.library", "torch.random",
}  # fmt: skip


def torch_module(name: str) -> ModuleType:
    """torch, or one of its modules."""
    known = sys.modules.get(name)
    if isinstance(known, _Module):
        return known
    made = _Module(name) if name == "torch" or name in _MODULES else AnyModule(name)
    sys.modules[name] = made
    return made
