"""f32 factors in shared memory are rounded to tf32 on their way there, where products that read it would truncate them.

`Rounding` knows what writes such a buffer, and whether all of that can round and nothing else reads the buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minitile.ir.core import Kernel, Op, Value
from minitile.ir.ops import tile
from minitile.ir.types import BufferType, f32


class Rounding:
    """What writes the shared f32 buffers that gemms read, and lets them round: operations with an attribute `tf32`."""

    def __init__(self, kernel: Kernel) -> None:
        self.users: dict[Value, list[Op]] = {}
        for op in kernel.walk():
            for value in dict.fromkeys(op.operands):
                if isinstance(value.type, BufferType) and value.dtype is f32:
                    self.users.setdefault(value, []).append(op)

    def refusal(self, buffer: Value) -> str:
        """Why not all that gets into a buffer can be rounded on its way, or should not."""
        name = buffer.name or "an operand"
        for op in self.users.get(buffer, ()):
            touched = [a for a in op.accesses() if a.mem in (buffer, None)]
            written = [a for a in touched if a.writes and a.mem is buffer]
            if written and ("tf32" not in op.attributes() or any(a.token is not None for a in written)):
                return f"nothing rounds {name} to tf32 on its way to shared memory"
            if (touched or op.pure) and not written and not isinstance(op, tile.Gemm):
                return f"{name} would be rounded to tf32 for the gemm, and `{op.mnemonic}` reads it"
        return ""

    def writers(self, gemms: Iterable[tile.Gemm]) -> Iterator[Op]:
        """What writes the operands of these gemms, and is to round them: operations with an attribute `tf32`."""
        for buffer in dict.fromkeys(v for gemm in gemms for v in (gemm.a, gemm.b) if v in self.users):
            yield from (op for op in self.users[buffer] if any(a.writes and a.mem is buffer for a in op.accesses()))
