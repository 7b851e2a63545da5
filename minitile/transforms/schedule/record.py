"""Clocks of a kernel's loops, turn by turn, in a tensor of the program's (`T.profile`): what a turn takes on a GPU, to
be held against what it was expected to cost.

    for … (%k, %c) {                 %p = address of %P[row, warp, 0], of the block that is first
      …                         →    for … (%k, %c, %p) {
    }                                  ptx "mov.u64 t, %clock64; @first st.global.b64 [%p], t" where %p is in the row
                                       …
                                       yield …, %p + 8 }

The last of all passes that change the order of operations, so that none sees it: each row belongs to one loop, each
line of it to one warp, whose first lane writes. A row for each loop that has no loop in it and does more than compute
scalars, in the order in which they stand; a note says which line each is of.
"""

from __future__ import annotations

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import arith, control, inline, thread
from minitile.ir.types import i64
from minitile.transforms.manager import PassContext

_TEXT = ".reg .u64 t; mov.u64 t, %clock64; @%first st.global.b64 [%place], t;"
_WORD = 8  # bytes of a clock


def record_turns(kernel: Kernel, context: PassContext) -> None:
    """The pass. Raises TargetError where there is no such clock."""
    tensor = next((v for v in kernel.params if v.name == kernel.attrs.get("profile")), None)
    if tensor is None:
        return
    rows, _, turns = map(int, tensor.shape)
    loops = [(op, block) for block in _blocks(kernel) for op in block.ops if isinstance(op, control.For) and _works(op)]
    if loops and not context.target.has("clock64"):
        message = f"T.profile on {context.target}: there is no clock"
        raise TargetError(message, loops[0][0].loc, "leave it out, or choose another target")
    top = Block()
    b = Builder(top)
    first, start = _places(b, tensor)
    for row, (loop, block) in enumerate(loops[:rows]):
        line = "" if loop.loc is None else f" of line {loop.loc.line}"
        context.notes.append(f"T.profile: row {row} is the loop{line}")
        _record(loop, block, tensor, first, start, row * int(tensor.shape[1]) * turns * _WORD, turns * _WORD)
    kernel.body.ops[:0] = top.ops


def _blocks(kernel: Kernel) -> list[Block]:
    """In the order of the program."""
    return [kernel.body, *(region for op in kernel.walk() for region in op.regions)]


def _works(loop: control.For) -> bool:
    inside = list(loop.body.walk())
    return not any(isinstance(op, control.Loop) for op in inside) and any(
        isinstance(op, thread.MmaSync) or op.accesses() for op in inside
    )


def _places(b: Builder, tensor: Value) -> tuple[Value, Value]:
    """Whether a thread is one that writes, and where its warp's line of row 0 begins."""
    _, warps, turns = map(int, tensor.shape)
    tid, zero = b.emit(thread.Special("tid.x")).result, b.constant(0)
    warp = b.value(arith.Shr(tid, b.constant(5)))
    first = b.compare("eq", b.emit(thread.Special("laneid")).result, zero)
    first = b.and_(first, b.compare("lt", warp, b.constant(warps)))
    for axis in "xyz":
        first = b.and_(first, b.compare("eq", b.emit(thread.Special(f"ctaid.{axis}")).result, zero))
    line = b.cast(b.mul(warp, turns * _WORD), i64)
    return first, b.add(b.emit(thread.GlobalAddress(tensor)).result, line)


def _record(
    loop: control.For, outside: Block, tensor: Value, first: Value, start: Value, offset: int, length: int
) -> None:
    """A clock at the head of each turn, as many as there is room for."""
    before, head = Block(), Block()
    b = Builder(before)
    at = b.add(start, b.constant(offset, i64))
    end = b.add(at, b.constant(length, i64))
    place = loop.body.add_arg(at.type, "clock")
    b = Builder(head)
    fits = b.and_(first, b.compare("lt", place, end))
    names = ("%first", "%place")
    b.emit(inline.PtxEffect((fits, place), _TEXT, names, mems=(tensor,), touches="write"))
    following = b.add(place, b.constant(_WORD, i64))
    last: Op = loop.body.ops[-1]
    assert isinstance(last, control.Yield)
    last.values = (*last.values, following)
    loop.body.ops[:0] = head.ops
    loop.init = (*loop.init, at)
    loop.results = (*loop.results, Value(at.type, loop, len(loop.results), "clock"))
    number = outside.ops.index(loop)
    outside.ops[number:number] = before.ops
