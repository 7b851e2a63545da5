"""Tensors of no content: a shape and a dtype. Operations give the shapes that torch's give where that is simple, and
never fail: what a reference computes does not matter in compile-only mode.

Small integer tensors that a script writes out, or counts (`torch.tensor([0, 128])`, `arange`), have their numbers:
sizes are made of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from minitile.tilelang.kernel import JITKernel

MOST_NUMBERS = 1 << 16  # of a tensor that has its numbers
_BITS = {"float8_e4m3fn": 8, "float8_e5m2": 8, "float8_e4m3fnuz": 8, "float8_e5m2fnuz": 8, "bool": 8}


class StandInDtype:
    """torch's dtype of a name."""

    def __init__(self, name: str) -> None:
        self.name = name
        digits = "".join(c for c in name.partition("_")[0] if c.isdigit())
        self.bits = _BITS.get(name) or int(digits or 32)
        self.itemsize = max(1, self.bits // 8)
        self.is_floating_point = "float" in name
        self.is_signed = not name.startswith("u")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    @property
    def numpy(self) -> Any:
        kind = "float" if self.is_floating_point else "uint" if self.name.startswith("u") else "int"
        if self.name == "bool":
            return np.dtype(bool)
        return np.dtype(f"{kind}{max(8, self.bits) if kind != 'float' else max(16, self.bits)}")


class Device(str):
    """torch.device."""

    __slots__ = ()
    index = 0  # type: ignore[assignment]

    @property
    def type(self) -> str:
        return self.split(":")[0]


class Size(tuple):  # type: ignore[type-arg]
    """torch.Size."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def numel(self) -> int:
        return int(np.prod(self, dtype=np.int64))


class StandIn:
    """A tensor of that shape and dtype; `numbers`: its content, where it is known."""

    device = Device("cuda")
    is_cuda = True
    requires_grad = False
    layout = None
    grad_fn = None
    __array_priority__ = 1000
    __array_ufunc__ = None

    def __init__(self, shape: Sequence[Any], dtype: StandInDtype | None = None, numbers: Any = None) -> None:
        self.shape = Size(max(0, int(n)) for n in shape)
        self.dtype = dtype or DTYPES["float32"]
        self.numbers = numbers

    def __repr__(self) -> str:
        return f"tensor(…, shape={tuple(self.shape)}, dtype={self.dtype})"

    def __format__(self, spec: str) -> str:
        return format(0.0, spec) if spec else repr(self)

    def like(self, shape: Sequence[int] | None = None, dtype: StandInDtype | None = None) -> StandIn:
        return StandIn(self.shape if shape is None else shape, dtype or self.dtype)

    # What it says of itself ------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def grad(self) -> StandIn:
        return self.like()

    @grad.setter
    def grad(self, value: Any) -> None:
        """Nothing."""

    @property
    def data(self) -> StandIn:
        return self

    @property
    def T(self) -> StandIn:
        return self.like(self.shape[::-1])

    @property
    def mT(self) -> StandIn:
        return self.transpose(-1, -2)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.numel() * self.dtype.itemsize

    def dim(self) -> int:
        return len(self.shape)

    def size(self, d: int | None = None) -> Any:
        return self.shape if d is None else self.shape[d]

    def numel(self) -> int:
        return self.shape.numel()

    nelement = numel

    def element_size(self) -> int:
        return self.dtype.itemsize

    def stride(self, d: int | None = None) -> Any:
        found = [int(np.prod(self.shape[i + 1 :], dtype=np.int64)) for i in range(self.ndim)]
        return tuple(found) if d is None else found[d]

    def data_ptr(self) -> int:
        return 1 << 20

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def __iter__(self) -> Iterator[StandIn]:
        if self.numbers is not None:
            return iter([StandIn(x.shape, self.dtype, x) for x in np.asarray(self.numbers)])
        return iter([self.like(self.shape[1:]) for _ in range(min(len(self), 64))])

    def item(self) -> Any:
        if self.numbers is not None and np.size(self.numbers) == 1:
            return np.asarray(self.numbers).reshape(-1)[0].item()
        return 0.0 if self.dtype.is_floating_point else 1

    def tolist(self) -> Any:
        return (np.zeros(self.shape, self.dtype.numpy) if self.numbers is None else self.numbers).tolist()

    def numpy(self) -> Any:
        return np.zeros(self.shape, self.dtype.numpy) if self.numbers is None else np.asarray(self.numbers)

    def __bool__(self) -> bool:
        return bool(self.item()) if self.numbers is not None else True

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    # Shapes ----------------------------------------------------------------------------------------------------------

    def view(self, *shape: Any) -> StandIn:
        given = _sizes(shape)
        if len(given) == 1 and isinstance(given[0], StandInDtype):
            last = (*self.shape[:-1], self.shape[-1] * self.dtype.bits // given[0].bits) if self.shape else ()
            return self.like(last, given[0])
        return self.reshape(*given)

    def reshape(self, *shape: Any) -> StandIn:
        given = [int(n) for n in _sizes(shape)]
        if -1 in given:
            known = int(np.prod([n for n in given if n != -1], dtype=np.int64))
            given[given.index(-1)] = self.numel() // max(1, known)
        numbers = None
        if self.numbers is not None and np.size(self.numbers) == int(np.prod(given, dtype=np.int64)):
            numbers = np.asarray(self.numbers).reshape(given)
        return StandIn(given, self.dtype, numbers)

    def permute(self, *order: Any) -> StandIn:
        return self.like([self.shape[int(d)] for d in _sizes(order)])

    def transpose(self, a: int, b: int) -> StandIn:
        shape = list(self.shape)
        if shape:
            shape[a], shape[b] = shape[b], shape[a]
        return self.like(shape)

    def t(self) -> StandIn:
        return self.T

    def squeeze(self, d: int | None = None) -> StandIn:
        if d is None:
            return self.like([n for n in self.shape if n != 1])
        at = d % max(1, self.ndim)
        return self.like([n for i, n in enumerate(self.shape) if i != at or n != 1])

    def unsqueeze(self, d: int) -> StandIn:
        shape = list(self.shape)
        shape.insert(d if d >= 0 else d + len(shape) + 1, 1)
        return self.like(shape)

    def expand(self, *shape: Any) -> StandIn:
        given = [int(n) for n in _sizes(shape)]
        tail = [1] * (len(given) - self.ndim) + list(self.shape)
        return self.like([have if n == -1 else n for n, have in zip(given, tail, strict=False)])

    def repeat(self, *times: Any) -> StandIn:
        given = [int(n) for n in _sizes(times)]
        tail = [1] * (len(given) - self.ndim) + list(self.shape)
        return self.like([a * b for a, b in zip(given, tail, strict=False)])

    def repeat_interleave(self, times: Any, dim: int = 0, **_: Any) -> StandIn:
        shape = list(self.shape)
        if shape:
            shape[dim] *= int(times) if not isinstance(times, StandIn) else 1
        return self.like(shape)

    def flatten(self, first: int = 0, last: int = -1) -> StandIn:
        end = last % max(1, self.ndim)
        middle = int(np.prod(self.shape[first : end + 1], dtype=np.int64))
        return self.reshape(*self.shape[:first], middle, *self.shape[end + 1 :])

    def chunk(self, count: int, dim: int = 0) -> tuple[StandIn, ...]:
        shape = list(self.shape)
        shape[dim] //= count
        return tuple(self.like(shape) for _ in range(count))

    def split(self, size: Any, dim: int = 0) -> tuple[StandIn, ...]:
        whole = self.shape[dim]
        sizes = size if isinstance(size, (list, tuple)) else [size] * (whole // max(1, int(size)))
        return tuple(self.like([*self.shape[: dim % self.ndim], n, *self.shape[dim % self.ndim + 1 :]]) for n in sizes)

    def unbind(self, dim: int = 0) -> tuple[StandIn, ...]:
        rest = [n for i, n in enumerate(self.shape) if i != dim % self.ndim]
        return tuple(self.like(rest) for _ in range(self.shape[dim]))

    def __getitem__(self, index: Any) -> StandIn:
        items = list(index) if isinstance(index, tuple) else [index]
        if self.numbers is not None:
            try:
                plain = tuple(np.asarray(i.numbers) if isinstance(i, StandIn) else i for i in items)
                found = np.asarray(self.numbers)[plain]
                return StandIn(found.shape, self.dtype, found)
            except (IndexError, TypeError, ValueError):
                pass
        return self.like(_indexed(self.shape, items))

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.numbers is not None:
            plain = getattr(value, "numbers", value)
            try:
                if plain is not None:
                    np.asarray(self.numbers)[index] = plain
            except (IndexError, TypeError, ValueError):
                self.numbers = None

    # Dtypes and places -----------------------------------------------------------------------------------------------

    def to(self, *args: Any, **named: Any) -> StandIn:
        for each in (*args, *named.values()):
            if isinstance(each, StandInDtype):
                return StandIn(self.shape, each, self.numbers)
            if isinstance(each, StandIn):
                return StandIn(self.shape, each.dtype, self.numbers)
        return self

    type = to

    def __getattr__(self, name: str) -> Any:
        """`.half()`, `.sum(-1)`, and whatever else torch's tensors have."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _CASTS:
            return lambda *_, **__: StandIn(self.shape, DTYPES[_CASTS[name]], self.numbers)
        from minitile.tilelang.stand_in import operations

        return operations.method(self, name)

    def _binary(self, other: Any) -> StandIn:
        from minitile.tilelang.stand_in import operations

        return operations.broadcast(self, other)

    def _matmul(self, other: Any) -> StandIn:
        from minitile.tilelang.stand_in import operations

        return operations.matmul(self, other)

    def _compared(self, other: Any) -> StandIn:
        return self._binary(other).to(DTYPES["bool"])

    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = _binary
    __lshift__ = __rshift__ = __iadd__ = __isub__ = __imul__ = __itruediv__ = _binary
    __matmul__ = _matmul
    __lt__ = __le__ = __gt__ = __ge__ = _compared
    __ne__ = _compared  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        return self._compared(other)

    def _counted(self, other: Any, how: Any) -> StandIn:
        mine, theirs = self.numbers, getattr(other, "numbers", other)
        if mine is not None and theirs is not None and not isinstance(theirs, StandIn):
            try:
                found = how(np.asarray(mine), theirs)
                return StandIn(np.shape(found), self.dtype, found)
            except (TypeError, ValueError):
                pass
        return self._binary(other)

    def __add__(self, other: Any) -> StandIn:
        return self._counted(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> StandIn:
        return self._counted(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> StandIn:
        return self._counted(other, lambda a, b: a * b)

    def __floordiv__(self, other: Any) -> StandIn:
        return self._counted(other, lambda a, b: a // b)

    def __mod__(self, other: Any) -> StandIn:
        return self._counted(other, lambda a, b: a % b)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> StandIn:
        return self._counted(other, lambda a, b: b - a)

    __rfloordiv__ = __rmod__ = _binary

    def __neg__(self) -> StandIn:
        return self.like()

    __invert__ = __abs__ = __pos__ = __neg__


def _sizes(given: Sequence[Any]) -> Sequence[Any]:
    return given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


def _indexed(shape: Sequence[int], items: list[Any]) -> list[int]:
    """The shape of x[items]."""
    used = sum(1 for i in items if i is not None and i is not Ellipsis)
    found: list[int] = []
    lists: list[StandIn] = []
    d = 0
    for item in items:
        if item is None:
            found.append(1)
            continue
        if item is Ellipsis:
            span = len(shape) - used
            found += shape[d : d + span]
            d += span
            continue
        size = shape[d] if d < len(shape) else 1
        if isinstance(item, slice):
            low, high, step = slice(_bound(item.start), _bound(item.stop), _bound(item.step)).indices(size)
            found.append(len(range(low, high, step)))
        elif isinstance(item, (StandIn, np.ndarray, list)) and np.ndim(item) if not isinstance(item, StandIn) else True:
            if isinstance(item, StandIn) and not lists and item.ndim:
                mask = item.dtype.name == "bool"
                found += [size] if mask else item.shape
                d += item.ndim - 1 if mask else 0
                lists.append(item)
            elif not isinstance(item, StandIn) and isinstance(item, (list, np.ndarray)):
                found += np.shape(item)
        d += 1
    return [*found, *shape[d:]]


def _bound(x: Any) -> Any:
    return None if x is None else int(x)


_NAMES = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn_x2",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]
DTYPES = {name: StandInDtype(name) for name in _NAMES}
_CASTS = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "bfloat16": "bfloat16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
}


def empty_like_results(kernel: JITKernel, args: Sequence[Any], named: Any) -> Any:
    """What a call would give back: tensors of no content of the results' shapes."""
    from minitile.ir.diagnostics import MinitileError
    from minitile.runtime.launch_info import compile_exprs, mentioned

    try:
        first = kernel.kernels[0]
        results = first._results((), {})
    except MinitileError:
        return StandIn((1,))
    sizes: dict[tuple[str, str], int] = {}
    passed = [p for p in kernel.signature.runtime if not p.made]
    for p, value in zip(passed, args, strict=False):
        if p.kind == "tensor" and p.tensor is not None:
            for name, n in zip(p.tensor.shape, getattr(value, "shape", ()), strict=False):
                if isinstance(name, str):
                    sizes["dim", name] = int(n)
        elif isinstance(value, int):
            sizes["scalar", p.name] = value
    found: dict[str, Any] = {p.name: value for p, value in zip(passed, args, strict=False)}
    for made in results.made:
        shape = []
        for expr in made.shape:
            slots = [*mentioned(expr)]
            shape.append(compile_exprs([expr], slots)(tuple(sizes.get(s, 1) for s in slots))[0])
        found[made.name] = StandIn(shape, DTYPES.get(str(made.dtype.numpy)))
    back = [found.get(n) for n in results.returned]
    return None if not back else back[0] if results.one else tuple(back)
