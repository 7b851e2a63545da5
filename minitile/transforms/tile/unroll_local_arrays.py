"""Small loops over each thread's own arrays become straight-line code, so that the arrays live in registers.

    %a = alloc local<2xf16>
    for 0, 2, 1 {kind = "vectorized"} (%k) {      %x0 = load %A[%base]
      %i = add %base, %k                          store %a[0], %x0
      %x = load %A[%i]                       →    %i1 = add %base, 1
      store %a[%k], %x                            %x1 = load %A[%i1]
    }                                             store %a[1], %x1

Behind it all indices of such an array are numbers, each element is a variable (`mem2reg`), and the accesses to memory
stand beside each other, where `join_accesses` makes wide ones of them.

Which loops    Those of constant bounds and at most `unroll`'s LIMIT rounds, with scalar code alone in them: no tiles,
               no barriers. Of these, those whose number is part of an index of an array that can live in registers, and
               all of kind "vectorized": that is what their author asks for.
Which arrays   Those that are accessed by scalars at indices made of constants and of such loops' numbers, all of them
               inside for sure. One index that only run time knows keeps an array in memory, and its loops as they are.
How much       What a loop comes to may have MOST operations. Of nested loops the inner ones come first; an array that
               needs a loop which stays is in memory, and asks for none.
"""

from __future__ import annotations

from minitile.analysis.affine import Facts
from minitile.analysis.variables import in_space
from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, tile
from minitile.ir.types import ScalarType
from minitile.transforms.canonicalize.unroll import LIMIT, unroll
from minitile.transforms.manager import PassContext

MOST = 4096
"""Operations. 64 rounds of 64 operations; a product of 16x16 in registers has some 1500. The kernel as a whole may have
100000 (ir/limits.py)."""

_KINDS = ("serial", "vectorized", "unroll")


def unroll_local_arrays(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    asked = (op for op in kernel.walk() if isinstance(op, tile.Alloc | control.For))
    if not any(_is_array(op) or (isinstance(op, control.For) and op.kind == "vectorized") for op in asked):
        return
    chosen = _Choice(kernel).chosen()
    for loop in chosen:
        loop.kind = "unroll"
    if chosen:
        unroll(kernel, context)


class _Choice:
    """`loops`: those that could be unrolled, inner ones first; `by_number`: the same by their numbers."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.loops: list[control.For] = []
        self.made: set[Value] = set()  # what is computed by scalar code from what it may be looked through to
        self._find(kernel.body)
        self.by_number = {loop.iv: loop for loop in self.loops}
        self.known: dict[Value, frozenset[control.For] | None] = {}

    def chosen(self) -> list[control.For]:
        if not self.loops:
            return []
        arrays = self._arrays()
        possible = set(self.loops)
        while True:
            arrays = {mem: needed for mem, needed in arrays.items() if needed <= possible}
            wanted = {loop for loop in possible if loop.kind == "vectorized"}.union(*arrays.values())
            large = self._large(wanted)
            if large is None:
                return [loop for loop in self.loops if loop in wanted]
            possible.discard(large)

    def _find(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, control.Parallel):
                continue  # its elements' threads are not known yet
            for region in op.regions:
                self._find(region)
            if isinstance(op, control.For) and _is_small(op):
                self.loops.append(op)

    def _arrays(self) -> dict[Value, frozenset[control.For]]:
        """The arrays that can live in registers, each with the loops that must be unrolled for that."""
        found = {op.result: frozenset[control.For]() for op in self.kernel.walk() if _is_array(op)}
        if not found:
            return found
        facts = Facts(self.kernel)
        for op in self.kernel.walk():
            if isinstance(op, tile.Load | tile.Store) and op.mem in found:
                needed = self._needed(op, facts)
                if needed is None:
                    del found[op.mem]
                else:
                    found[op.mem] |= needed
            elif not (isinstance(op, tile.Fill) and op.shape == op.mem.shape):
                for v in op.operands:
                    found.pop(v, None)
        return found

    def _needed(self, op: tile.Load | tile.Store, facts: Facts) -> frozenset[control.For] | None:
        """The loops whose numbers are in an access's indices; None where it must stay one to memory."""
        value = op.result if isinstance(op, tile.Load) else op.value
        if not isinstance(value.type, ScalarType) or op.mask is not None:
            return None
        loops: frozenset[control.For] = frozenset()
        for index, size in zip(op.indices, op.mem.shape, strict=True):
            found = self._loops_of(index)
            if found is None:
                return None
            if found:
                least, most = facts.range(facts.affine(index))
                if least is None or most is None or least < 0 or most >= size:
                    return None
            loops |= found
        return loops

    def _loops_of(self, value: Value) -> frozenset[control.For] | None:
        """The loops whose numbers a scalar is computed from, and from constants alone; None: from more than that."""
        if value in self.known:
            return self.known[value]
        found: frozenset[control.For] | None = None
        op = value.op
        if value in self.by_number:
            found = frozenset({self.by_number[value]})
        elif isinstance(op, arith.Constant):
            found = frozenset()
        elif op is not None and op.pure and not op.region_fields and op.operands:
            parts = [self._loops_of(v) for v in op.operands]
            found = None if None in parts else frozenset().union(*(p for p in parts if p is not None))
        self.known[value] = found
        return found

    def _large(self, wanted: set[control.For]) -> control.For | None:
        """The innermost loop that comes to more than MOST operations."""
        sizes: dict[Op, int] = {}
        for loop in self.loops:  # inner ones first
            if loop not in wanted:
                continue
            size = _size(loop.body, sizes) * _rounds(loop)
            if size > MOST:
                return loop
            sizes[loop] = size
        return None


def _size(block: Block, sizes: dict[Op, int]) -> int:
    """How many operations a block comes to, with these loops unrolled."""
    total = 0
    for op in block.ops:
        total += sizes[op] if op in sizes else 1 + sum(_size(region, sizes) for region in op.regions)
    return total


def _rounds(loop: control.For) -> int:
    return len(range(*(int(constant_of(v)) for v in (loop.lower, loop.upper, loop.step))))


def _is_array(op: Op) -> bool:
    """Whether an operation allocates an array of each thread's own."""
    return isinstance(op, tile.Alloc) and op.type_.space == "local"


def _is_small(loop: control.For) -> bool:
    """Whether a loop has a small constant number of rounds, and nothing but each thread's own scalar code in it."""
    if loop.kind not in _KINDS or any(constant_of(v) is None for v in (loop.lower, loop.upper, loop.step)):
        return False
    return _rounds(loop) <= LIMIT and all(map(_is_scalar_code, loop.body.walk()))


def _is_scalar_code(op: Op) -> bool:
    if isinstance(op, control.Statement) or op.by_role:
        return False
    if isinstance(op, control.Structured) or op.terminator:
        return True
    if isinstance(op, tile.Fill):
        return in_space(op.mem, "local")
    if isinstance(op, tile.MemoryOp):
        return isinstance(op.moved.type, ScalarType)
    return not op.uniform and not op.region_fields and (op.pure or not (op.accesses() or op.syncs()))
