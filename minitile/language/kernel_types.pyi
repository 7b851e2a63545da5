"""What type checkers and editors see of the names that stand in a kernel's annotations; `kernel_types.py` is what runs.

A scalar of the language is a number for them: `x: T.float32` a float, `n: T.int32` an int, like the indices of loops.
So `acc = 0.0` may become `acc + x` later, `range(n)` is right, and `T.float32(n)` is a float.

`A: T.Tensor(("M", "K"), T.bfloat16)` is a call where Python's typing rules know only types (docs/typing.md);
`A: Annotated[T.Tensor, ("M", "K"), T.bfloat16]` is what they accept, and A is a tensor then.
"""

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

from minitile.ir.types import DType
from minitile.language.memory import Memory

float64: TypeAlias = float
float32: TypeAlias = float
float16: TypeAlias = float
bfloat16: TypeAlias = float
float8_e4m3: TypeAlias = float
float8_e4m3fn: TypeAlias = float
float8_e5m2: TypeAlias = float
float8_e4m3fnuz: TypeAlias = float
float8_e5m2fnuz: TypeAlias = float
int4: TypeAlias = int
int8: TypeAlias = int
int16: TypeAlias = int
int32: TypeAlias = int
int64: TypeAlias = int
uint4: TypeAlias = int
uint8: TypeAlias = int
uint16: TypeAlias = int
uint32: TypeAlias = int
uint64: TypeAlias = int
bool: TypeAlias = builtins.bool

# Formats of packed bytes, of which there are no scalars.
float4_e2m1fn: DType
float6_e2m3fn: DType
float6_e3m2fn: DType

def dynamic(name: str, /) -> Any:
    """A run-time dimension: in a signature's shape its name, in the body its size."""

symbolic = dynamic

class Tensor(Memory):
    """A tensor in global memory: `Annotated[T.Tensor, shape, dtype]`, or as a call. `shape` holds sizes and names of
    run-time dimensions; `dtype` None: the caller's."""

    def __init__(self, shape: int | str | Sequence[int | str], dtype: Any = "float32") -> None: ...

class StridedTensor(Tensor):
    """A tensor with strides of its own, in elements: `Annotated[T.StridedTensor, shape, strides, dtype]`, or as a call.
    `strides` holds numbers and names of run-time ones."""

    def __init__(
        self, shape: int | str | Sequence[int | str], strides: int | str | Sequence[int | str], dtype: Any = "float32"
    ) -> None: ...

Buffer = Tensor
