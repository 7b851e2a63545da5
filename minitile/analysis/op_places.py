"""Where each operation of a body stands, and who uses each value."""

from __future__ import annotations

from collections.abc import Iterator

from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import control


class Places:
    """Where each operation stands: its block, its number there, the operation around the block."""

    def __init__(self, body: Block) -> None:
        self.block: dict[Op, Block] = {}
        self.number: dict[Op, int] = {}
        self.parent: dict[Block, Op] = {}
        self.users: dict[Value, list[Op]] = {}
        self._enter(body)

    def _enter(self, block: Block) -> None:
        for n, op in enumerate(block.ops):
            self.block[op], self.number[op] = block, n
            for value in dict.fromkeys(op.operands):
                self.users.setdefault(value, []).append(op)
            for region in op.regions:
                self.parent[region] = op
                self._enter(region)

    def around(self, op: Op) -> Op | None:
        return self.parent.get(self.block[op])

    def all_around(self, op: Op) -> Iterator[Op]:
        """The operations around it, inner ones first."""
        around = self.around(op)
        while around is not None:
            yield around
            around = self.around(around)

    def pipelined(self, op: Op) -> control.For | None:
        """The loop of two or more stages whose body it stands in, under branches at most."""
        around = self.around(op)
        while isinstance(around, control.If):
            around = self.around(around)
        return around if isinstance(around, control.For) and around.kind == "pipelined" and around.stages > 1 else None

    def in_block(self, op: Op, block: Block) -> Op | None:
        """The operation of `block` that is `op` or holds it; None where it stands elsewhere."""
        while self.block[op] is not block:
            outer = self.around(op)
            if outer is None:
                return None
            op = outer
        return op
