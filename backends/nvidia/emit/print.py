"""printf through the driver's `vprintf`: a format string in global memory, the arguments packed in local memory.

Arguments follow C's promotions: floats as f64, small integers and bools as 32 bits, each aligned to its size. An
argument with several registers prints once for each, with the scalars repeated.

Source: CUDA C++ Programming Guide, "Formatted Output"; the PTX interoperability guide, "System Calls" (vprintf).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitile.backends.nvidia.emit.emitter import Emitter
from minitile.backends.nvidia.emit.memory import local_array
from minitile.ir.core import Op
from minitile.ir.ops import thread
from minitile.ir.types import DType

DECLARATION = ".extern .func (.param .b32 status) vprintf (.param .b64 format, .param .b64 arguments);"


def printf(w: Emitter, op: thread.Printf) -> None:
    w.globals[DECLARATION] = None
    data = op.text.encode() + b"\0"
    symbol = f"format_{len(w.globals)}"
    w.globals[f".global .align 1 .b8 {symbol}[{len(data)}] = {{{', '.join(map(str, data))}}};"] = None
    lanes = max((thread.count_of(v.type) for v in op.values), default=1)
    columns = [(v.dtype, w.in_registers(v)) for v in op.values]
    places, size = _places([dtype for dtype, _ in columns])
    buffer = local_array(w, ("printf", size), "arguments", max(size, 8))
    for n in range(lanes):
        for (dtype, registers), place in zip(columns, places, strict=True):
            _put(w, f"[{buffer}+{place}]", registers[n if len(registers) > 1 else 0], dtype)
        _call(w, symbol, buffer)


def _places(dtypes: list[DType]) -> tuple[list[int], int]:
    places, end = [], 0
    for dtype in dtypes:
        size = 8 if dtype.is_float or dtype.bits == 64 else 4
        end = -(-end // size) * size
        places.append(end)
        end += size
    return places, end


def _put(w: Emitter, place: str, x: str, dtype: DType) -> None:
    if dtype.is_float:
        w.emit(f"st.local.f64 {place}, {_as_f64(w, x, dtype)};")
    elif dtype.bits == 64:
        w.emit(f"st.local.b64 {place}, {x};")
    else:
        w.emit(f"st.local.b32 {place}, {_as_32(w, x, dtype)};")


def _as_f64(w: Emitter, x: str, dtype: DType) -> str:
    if dtype.bits == 64:
        return x
    if dtype.name == "bf16":
        zero, single = w.register("0", "b16"), w.temp("f32")
        w.emit(f"mov.b32 {single}, {{{zero}, {x}}};")
        x, source = single, "f32"
    else:
        source = dtype.name
    double = w.temp("f64")
    w.emit(f"cvt.f64.{source} {double}, {x};")
    return double


def _as_32(w: Emitter, x: str, dtype: DType) -> str:
    if dtype.bits == 32:
        return x
    wide = w.temp("b32")
    if dtype.kind == "bool":
        w.emit(f"selp.b32 {wide}, 1, 0, {w.register(x, 'pred')};")
    else:
        sign = "s" if dtype.kind == "int" else "u"
        w.emit(f"cvt.{sign}32.{sign}16 {wide}, {x};")
    return wide


def _call(w: Emitter, symbol: str, buffer: str) -> None:
    text, arguments, status = w.temp("b64"), w.temp("b64"), w.temp("b32")
    w.emit(f"mov.u64 {text}, {symbol};")
    w.emit(f"cvta.global.u64 {text}, {text};")
    w.emit(f"mov.u64 {arguments}, {buffer};")
    w.emit(f"cvta.local.u64 {arguments}, {arguments};")
    w.emit("{")
    w.emit(".param .b64 p0;")
    w.emit(f"st.param.b64 [p0], {text};")
    w.emit(".param .b64 p1;")
    w.emit(f"st.param.b64 [p1], {arguments};")
    w.emit(".param .b32 r0;")
    w.emit("call.uni (r0), vprintf, (p0, p1);")
    w.emit(f"ld.param.b32 {status}, [r0];")
    w.emit("}")


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {thread.Printf: printf}
