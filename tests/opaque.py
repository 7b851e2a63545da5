"""An operation that says nothing of itself: what passes must take for the worst. `does` is what it prints.

Operands: this thread's place in shared memory, the buffer's start, the address of a tensor; 128 threads, 2048 bytes.
"""

from __future__ import annotations

from minitile.backends.nvidia.emit import writer
from minitile.backends.nvidia.emit.emitter import Emitter
from minitile.ir.core import Op, Value, attr, operand

_PUT = """.reg .pred first;
  mov.u32 word, %tid.x;
  setp.eq.u32 first, word, 0;
  @first cp.async.bulk.global.shared::cta.bulk_group [{tensor}], [{start}], 2048;
  @first cp.async.bulk.commit_group;
  @first cp.async.bulk.wait_group 0;"""
TEXTS = {
    "store": "mov.u32 word, 0;\n  st.shared.v4.b32 [{place}], {{word, word, word, word}};",
    "put": _PUT,
    "fenced store": "mov.u32 word, 0;\n  st.shared.v4.b32 [{place}], {{word, word, word, word}};\n"
    "  fence.proxy.async.shared::cta;",
}


class Opaque(Op, name="opaque", stage="thread"):
    place: Value = operand()
    start: Value = operand()
    tensor: Value = operand()
    does: str = attr("store")


def _emit(w: Emitter, op: Opaque) -> None:
    places = {name: w.element(getattr(op, name)) for name in ("place", "start", "tensor")}
    w.emit("{\n  .reg .b32 word;\n  " + TEXTS[op.does].format(**places) + "\n}")


writer._EMIT[Opaque] = _emit
