"""A kernel's signature: which parameters are tensors, run-time scalars, compile-time constants.

A: T.Tensor(("M", 64), T.bfloat16)   a tensor; a string names a run-time dimension (or a compile-time parameter)
A: Annotated[T.Tensor, ("M", 64), T.bfloat16]   the same, as type checkers know annotations
A: T.Tensor(("M", 64), T.bfloat16) | None = None   a tensor that calls may leave out
A: T.StridedTensor(("M", 64), ("lda", 1), T.bfloat16)   a tensor with strides of its own
x: T.float32                         a run-time scalar
block=128, or no annotation          a compile-time constant
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Annotated, Any, get_args, get_origin

from minitile.ir.diagnostics import LanguageError, Location
from minitile.ir.types import Dim as IRDim
from minitile.ir.types import DType
from minitile.language.math import dtype_of_name
from minitile.language.storage.packed import nibble_of, stored
from minitile.language.tracing.source import closure_values


class Tensor:
    """`A: T.Tensor(shape, dtype)` in a signature: a tensor in global memory. `T.Buffer` is the same.

    The kernel is compiled for tensors that are row-major without gaps. A call that passes another one (`x.T`,
    `x[:, :32]`, `x[::2]`, `x.expand(8, -1)`) compiles it once more, for a tensor whose strides are run-time values.
    Vectors and TMA are used there too where they may be: where the last stride is 1 and the others, and the address,
    are multiples of 16 bytes.

    `A.shape` has its sizes, `A.strides` its strides in elements, and `A.dtype` its dtype. `A[i, j]` reads at that
    point; `A[i, j] = x` writes; slices and starts are regions for tile operations. Loads outside give 0, stores outside
    vanish.

    Args:
        shape: Python ints, and strings that name run-time dimensions (or compile-time parameters); tensors that use the
            same name must agree.
        dtype: any dtype of the table; None: the caller's. int4 and uint4 are packed: a call passes int8 or uint8, with
            half the last dimension, which is known at compile time; the first of two elements is in a byte's low half.

    Raises:
        LanguageError: another dimension or dtype; an access that is outside whenever the kernel runs.

    Example:
        ```py
        @mt.kernel
        def add_one(X: T.Tensor(("M", 64), T.float32), Y: T.Tensor(("M", 64), T.float32), rows=4):
            with T.Kernel(T.ceildiv(X.shape[0], rows), threads=128) as bx:
                for i, j in T.Parallel(rows, 64):
                    Y[bx * rows + i, j] = X[bx * rows + i, j] + 1
        ```
    """

    __slots__ = ("dtype", "packed", "shape", "strides")

    def __init__(self, shape: Any, dtype: Any = "float32") -> None:
        self._take(shape, None, dtype)

    def _take(self, shape: Any, strides: Any, dtype: Any) -> None:
        try:
            self.shape: tuple[IRDim, ...] = tuple(_dimension(d) for d in _several(shape))
            self.strides: tuple[IRDim, ...] | None = None
            if strides is not None:
                self.strides = tuple(_stride(s) for s in _several(strides))
                if len(self.strides) != len(self.shape):
                    raise LanguageError(
                        f"T.StridedTensor has {len(self.shape)} dimensions and {len(self.strides)} strides",
                        hint="it takes a stride for each dimension, in elements",
                    )
            self.packed: DType | None = nibble_of(dtype)
            self.dtype: DType | None = None if dtype is None else stored(dtype)
            if self.packed is not None and strides is not None:
                raise LanguageError(f"T.StridedTensor of {self.packed}", hint="take its bytes, as uint8")
        except LanguageError as error:
            frame, code = sys._getframe(2), sys._getframe(2).f_code
            if error.loc is None and not code.co_filename.startswith("<"):  # else an annotation that is kept as text
                error.loc = Location.of_line(code.co_filename, frame.f_lineno, code.co_name)
            raise

    def __or__(self, other: None) -> OptionalTensor:
        """`T.Tensor(…) | None`: a tensor that a call may leave out."""
        return OptionalTensor(self) if other is None else NotImplemented

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"T.Tensor({self.shape}, {self.dtype})"


@dataclass(frozen=True)
class OptionalTensor:
    """`bias: T.Tensor(("N",), T.float32) | None = None` in a signature. A call with None is compiled for itself: there
    `bias` is None, and `if bias is not None:` is decided at compile time."""

    tensor: Tensor


class StridedTensor(Tensor):
    """`A: T.StridedTensor(shape, strides, dtype)` in a signature: a tensor in global memory whose element `A[i, j]` is
    `strides[0] * i + strides[1] * j` elements behind its first. A call checks that its argument is one.

    `T.Tensor` takes arrays of any strides too. This says more: which strides are known, which are the same number, and
    that contiguous arrays need no code of their own. A stride that is 1 or 0 in a call, and what divides the others as
    far as 16 bytes, fixes the specialisation; other numbers do not.

    Args:
        shape: as of `T.Tensor`.
        strides: one for each dimension, in elements: Python ints, and strings that name run-time numbers (or
            compile-time parameters); those of the same name must agree, and a name may be that of a dimension.
        dtype: any dtype of the table; None: the caller's.

    Raises:
        LanguageError: another dimension, stride or dtype, or another number of strides than of dimensions.

    Example:
        ```py
        @mt.kernel
        def first_columns(
            X: T.StridedTensor(("M", 32), ("row", 1), T.float32), Y: T.Tensor(("M", 32), T.float32), rows=4
        ):
            with T.Kernel(T.ceildiv(X.shape[0], rows), threads=128) as bx:
                for i, j in T.Parallel(rows, 32):
                    Y[bx * rows + i, j] = X[bx * rows + i, j]
        ```
    """

    __slots__ = ()

    def __init__(self, shape: Any, strides: Any, dtype: Any = "float32") -> None:
        self._take(shape, strides, dtype)

    def __repr__(self) -> str:
        return f"T.StridedTensor({self.shape}, {self.strides}, {self.dtype})"


def _several(given: Any) -> Any:
    return given if isinstance(given, (tuple, list)) else (given,)


def _dimension(d: Any) -> IRDim:
    if isinstance(d, str) and d.isidentifier():
        return str(d)
    if not isinstance(d, (str, bool)) and hasattr(d, "__index__") and int(d) >= 0:
        return int(d)
    raise LanguageError(
        f"a dimension of T.Tensor is {d!r}", hint="a dimension is an integer, or the name of a run-time one as a string"
    )


def _stride(s: Any) -> IRDim:
    if isinstance(s, str) and s.isidentifier():
        return str(s)
    if not isinstance(s, (str, bool)) and hasattr(s, "__index__"):
        return int(s)
    raise LanguageError(
        f"a stride of T.StridedTensor is {s!r}",
        hint="a stride is an integer, in elements, or the name of a run-time one as a string",
    )


@dataclass(frozen=True)
class Parameter:
    """`kind` is "tensor", "scalar", "constant", or "self": the object whose method the kernel is, which is the default;
    `default` is inspect's empty when there is none. optional: None may be passed for the tensor; made: a call that does
    not pass the tensor makes it, and returns it."""

    name: str
    kind: str
    tensor: Tensor | None
    dtype: DType | None
    default: Any
    optional: bool = False
    made: bool = False

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty and not self.made


@dataclass(frozen=True)
class Signature:
    parameters: tuple[Parameter, ...]

    @property
    def runtime(self) -> tuple[Parameter, ...]:
        """Tensors and scalars, in order."""
        return tuple(p for p in self.parameters if p.kind in ("tensor", "scalar"))

    @property
    def constants(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.kind == "constant")

    def without(self, names: Sequence[str]) -> Signature:
        """The signature of calls that pass None for these optional tensors."""
        return Signature(
            tuple(Parameter(p.name, "constant", None, None, None) if p.name in names else p for p in self.parameters)
        )

    def making(self, places: int | Sequence[int], where: Location | None) -> Signature:
        """The signature in which calls make these tensors; places: among tensors and scalars, negative ones from the
        end. Raises LanguageError."""
        runtime = self.runtime
        numbers = [places] if isinstance(places, int) else list(places)
        for n in numbers:
            if not isinstance(n, int) or not -len(runtime) <= n < len(runtime):
                raise LanguageError(
                    f"out_idx={places}: {n} is no place among {len(runtime)} tensors and scalars of the signature",
                    where,
                )
            if runtime[n].kind != "tensor" or runtime[n].optional:
                raise LanguageError(f"out_idx={places}: {runtime[n].name} is no tensor that a call could make", where)
        names = {runtime[n].name for n in numbers}
        return Signature(tuple(replace(p, made=True) if p.name in names else p for p in self.parameters))

    def bound_to(self, owner: object) -> Signature:
        """The signature of a method of this object, whose first parameter that is."""
        first, *rest = self.parameters
        return Signature((*rest, Parameter(first.name, "self", None, None, owner)))


def read_signature(function: FunctionType, around: Mapping[str, Any]) -> Signature:
    """The signature of a kernel function. `around` are the names visible where it was defined: annotations kept as
    strings (`from __future__ import annotations`) may use names that the function itself did not capture."""
    place = Location(function.__code__.co_filename, function.__code__.co_firstlineno, function=function.__name__)
    names = {**around, **closure_values(function)}
    found: list[Parameter] = []
    for p in inspect.signature(function).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise LanguageError(f"a kernel takes no *{p.name}", place, "name every parameter")
        annotation = p.annotation
        if isinstance(annotation, str) and not hasattr(annotation, "ours"):
            annotation = _evaluate(annotation, function, names, p.name, place)
        annotation = getattr(annotation, "ours", annotation)  # of a dtype of minitile.tilelang, which is a string
        if get_origin(annotation) is Annotated:
            annotation = _annotated(annotation, p.name, place)
        optional = isinstance(annotation, OptionalTensor)
        annotation = annotation.tensor if isinstance(annotation, OptionalTensor) else annotation
        if isinstance(annotation, Tensor):
            if p.default is not p.empty and not (optional and p.default is None):
                hint = f"{p.name}: T.Tensor(…) | None = None is a tensor that may be left out"
                raise LanguageError(f"the tensor {p.name} has a default value", place, hint)
            found.append(Parameter(p.name, "tensor", annotation, annotation.dtype, p.default, optional))
        elif isinstance(annotation, DType):
            found.append(Parameter(p.name, "scalar", None, dtype_of_name(annotation), p.default))
        elif annotation is Tensor:
            raise LanguageError(f"{p.name}: T.Tensor without a shape", place, _TENSOR)
        elif annotation is StridedTensor:
            raise LanguageError(f"{p.name}: T.StridedTensor without a shape", place, _STRIDED)
        else:
            found.append(Parameter(p.name, "constant", None, None, p.default))
    return Signature(tuple(found))


_TENSOR = 'write T.Tensor(("M", "N"), T.float32), or Annotated[T.Tensor, ("M", "N"), T.float32]'
_STRIDED = 'write T.StridedTensor(("M", "N"), ("lda", 1), T.float32)'


def _annotated(annotation: Any, parameter: str, place: Location) -> Any:
    """What `Annotated[…]` says: of T.Tensor, a tensor of the shape and dtype behind it (of T.StridedTensor, of the
    shape, strides and dtype); of anything else, that."""
    kind, *given = get_args(annotation)
    either = get_args(kind)
    if len(either) == 2 and type(None) in either and {Tensor, StridedTensor} & {*either}:
        (kind,) = (each for each in either if each is not type(None))
        return _annotated(Annotated[kind, *given], parameter, place) | None
    if kind is StridedTensor:
        if not 2 <= len(given) <= 3:
            what = f"{parameter}: T.StridedTensor takes a shape, strides and a dtype, not {len(given)} things"
            raise LanguageError(what, place, _STRIDED)
    elif kind is not Tensor:
        return kind
    elif len(given) > 2:
        raise LanguageError(f"{parameter}: T.Tensor takes a shape and a dtype, not {len(given)} things", place, _TENSOR)
    try:
        return kind(*given)
    except LanguageError as error:
        error.loc = place
        raise


def _evaluate(text: str, function: FunctionType, names: dict[str, Any], parameter: str, place: Location) -> Any:
    try:
        return eval(text, function.__globals__, names)
    except LanguageError as error:
        error.loc = error.loc or place
        raise
    except Exception as error:
        raise LanguageError(
            f"the annotation of {parameter}, {text}, cannot be evaluated: {type(error).__name__}: {error}", place
        ) from error
