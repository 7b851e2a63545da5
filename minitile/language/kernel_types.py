"""What stands in a kernel's annotations: `T.Tensor` and the dtypes.

Type checkers and editors read `kernel_types.pyi` in place of this file: there a scalar of a dtype is a number, and a
tensor is what the kernel's body sees of it.
"""

from minitile.ir.types import bf16 as bfloat16
from minitile.ir.types import bool_ as bool
from minitile.ir.types import e2m1 as float4_e2m1fn
from minitile.ir.types import e2m3 as float6_e2m3fn
from minitile.ir.types import e3m2 as float6_e3m2fn
from minitile.ir.types import e4m3 as float8_e4m3
from minitile.ir.types import e4m3 as float8_e4m3fn
from minitile.ir.types import e4m3fnuz as float8_e4m3fnuz
from minitile.ir.types import e5m2 as float8_e5m2
from minitile.ir.types import e5m2fnuz as float8_e5m2fnuz
from minitile.ir.types import f16 as float16
from minitile.ir.types import f32 as float32
from minitile.ir.types import f64 as float64
from minitile.ir.types import i4 as int4
from minitile.ir.types import i8 as int8
from minitile.ir.types import i16 as int16
from minitile.ir.types import i32 as int32
from minitile.ir.types import i64 as int64
from minitile.ir.types import u4 as uint4
from minitile.ir.types import u8 as uint8
from minitile.ir.types import u16 as uint16
from minitile.ir.types import u32 as uint32
from minitile.ir.types import u64 as uint64
from minitile.language.tracing.expressions import Dim as dynamic
from minitile.language.tracing.expressions import Dim as symbolic
from minitile.language.tracing.signature import StridedTensor, Tensor

Buffer = Tensor

__all__ = [
    "Buffer",
    "StridedTensor",
    "Tensor",
    "bfloat16",
    "bool",
    "dynamic",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float16",
    "float32",
    "float64",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "symbolic",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
