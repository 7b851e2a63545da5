"""Shared memory is allocated at the front of the launch, wherever the program says it: on traced IR, the first pass.

    if %empty { } {                               %qs = alloc … {lifetime = None}
      %qs = alloc shared<64x64xf16>               %ks = alloc … {lifetime = 1}
      for %t {                              →     if %empty { } {
        %ks = alloc shared<32x64xf16>               for %t {
        …                                             lifetime {number = 1}
      }                                               …
    }                                               } }

Shared memory is there for as long as the block is; no condition decides whether it is, and no loop how often. So every
later pass finds each buffer in front of all of its uses, wherever it moves these: to roles of their own, iterations
ahead, behind the loop.

What a loop's body allocates is new in each iteration: what it held in the one before is dead. `allocate_shared_memory`
gives such a buffer's bytes to others in the rest of the iteration. Where that begins is said by a `lifetime` in the
body. A software-pipelined loop works on several iterations at once; what it allocates lives from its first to its last.

Barriers are initialised once, before any thread can wait at one, and their phases go on from iteration to iteration of
a loop around the allocation. Where all waits in such a loop name one phase, the second iteration would not wait: that
is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import LanguageError
from minitile.ir.ops import control, explicit, tile
from minitile.ir.types import BufferType
from minitile.transforms.manager import PassContext


def hoist_storage(kernel: Kernel, context: PassContext) -> None:
    """The pass. Raises LanguageError for a barrier of a loop whose waits cannot be right."""
    for launch in kernel.body.ops:
        if isinstance(launch, control.Launch):
            walk = _Walk()
            walk.block(launch.body, (), None)
            walk.check_waits()
            for block, number in walk.numbers.items():
                block.ops.insert(0, tile.Lifetime(number))
            # Barriers first: they are initialised before any thread can come to a wait.
            launch.body.ops[:0] = sorted(walk.found, key=lambda op: not isinstance(op, explicit.Barriers))


def is_storage(op: Op) -> bool:
    """Whether an operation makes shared memory, out of nothing."""
    return not op.operands and any(isinstance(r.type, BufferType) and r.type.space == "shared" for r in op.results)


@dataclass
class _Walk:
    """`found`: the storage in the order of the program; `numbers`: of the blocks in which something of an iteration's
    own begins; `loops`: the innermost one around what is allocated in one; `waits`: for each barrier, by its number in
    the array, None where that is no constant."""

    found: list[Op] = field(default_factory=list)
    numbers: dict[Block, int] = field(default_factory=dict)
    loops: dict[Value, control.Loop] = field(default_factory=dict)
    waits: dict[tuple[Value, int | None], list[explicit.BarrierWait]] = field(default_factory=dict)

    def block(self, block: Block, loops: tuple[control.Loop, ...], life: Block | None) -> None:
        """`life`: the innermost block, this one or around it, whose allocations are of one iteration of a loop, not of
        several that are in flight together."""
        ops: list[Op] = []
        for op in block.ops:
            if is_storage(op):
                self.found.append(op)
                if loops:
                    self.loops.update(dict.fromkeys(op.results, loops[-1]))
                if life is not None and isinstance(op, tile.Alloc):
                    op.lifetime = self.numbers.setdefault(life, len(self.numbers) + 1)
                continue
            ops.append(op)
            if isinstance(op, explicit.BarrierWait):
                self.waits.setdefault((op.barriers, constant_of(op.index)), []).append(op)
            inner = (*loops, op) if isinstance(op, control.Loop) else loops
            together = any(isinstance(loop, control.For) and loop.kind == "pipelined" for loop in inner)
            for region in op.regions:
                self.block(region, inner, region if inner and not together else life)
        block.ops = ops

    def check_waits(self) -> None:
        """Raises LanguageError where waits of several iterations can name one phase alone."""
        for (barriers, index), waits in self.waits.items():
            loop = self.loops.get(barriers)
            phases = {constant_of(wait.parity) for wait in waits}
            if loop is None or index is None or len(phases) > 1 or None in phases or _runs_once(loop):
                continue
            raise LanguageError(
                "a barrier that is allocated in a loop is one for all of its iterations, and its phases go on: waits "
                f"for parity {phases.pop()} alone are wrong from the second iteration on",
                waits[0].loc,
                "allocate it in front of the loop, and wait for the parity of the iteration's number, k % 2",
            )


def _runs_once(loop: control.Loop) -> bool:
    if not isinstance(loop, control.For):
        return False
    lower, upper, step = map(constant_of, (loop.lower, loop.upper, loop.step))
    return None not in (lower, upper, step) and lower + step >= upper
