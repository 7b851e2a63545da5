"""Which LDS objects LLVM sees, and where they lie.

A buffer is an object of its own: what LLVM knows to be apart it need not order, and a read of one waits for no copy
that is under way to another. Buffers that got the same bytes (allocate_shared_memory) are one object, since an access
of one could meet an access of the other; but not where all of one's accesses lie before a barrier in the kernel's
outermost block and all of the other's behind it. LLVM moves no access over a barrier, so that it may take them for
apart; then every object is put at its own address (`!absolute_symbol`), some at the same one:

    for … { …  %K … }        @lds.0.K = … [8192 x i8] …, !absolute_symbol !{i32 0, i32 1}
    barrier
    for … { …  %V … }        @lds.1.V = … [8192 x i8] …, !absolute_symbol !{i32 0, i32 1}

Source: LLVM 22, Language Reference, "absolute_symbol" metadata; AMDGPUMachineFunction::allocateLDSGlobal, which wants
such objects inside of the frame that the attribute amdgpu-lds-size gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from minitile.ir.core import Kernel, Op, Value
from minitile.ir.ops import thread, tile


@dataclass(frozen=True, slots=True)
class Objects:
    """`groups`: the buffers of each object, in the order of their offsets. `absolute`: whether each object must be told
    its address, since some of them share bytes."""

    groups: list[list[tile.Alloc]]
    absolute: bool


def lds_objects(kernel: Kernel) -> Objects:
    """The objects of all buffers that something touches; the others have no bytes."""
    allocs = [op for op in kernel.walk() if isinstance(op, tile.Alloc) and op.type_.space == "shared"]
    spans = _spans(kernel, allocs)
    allocs = [alloc for alloc in allocs if alloc.result in spans]
    barriers = [n for n, op in enumerate(kernel.body.ops) if isinstance(op, thread.Barrier)]
    groups: list[list[tile.Alloc]] = []
    absolute = False
    for together in overlapping(allocs):
        parts = _apart(together, spans, barriers)
        absolute |= len(parts) > 1
        groups += parts
    return Objects(groups, absolute)


def extent(alloc: tile.Alloc) -> tuple[int, int]:
    """The first byte of a buffer and the one behind its last."""
    start = alloc.offset or 0
    return start, start + alloc.version_bytes * alloc.type_.versions


def overlapping(allocs: Sequence[tile.Alloc]) -> list[list[tile.Alloc]]:
    """The allocs in groups that share bytes, in the order of their offsets."""
    groups: list[list[tile.Alloc]] = []
    end = -1
    for alloc in sorted(allocs, key=lambda a: a.offset or 0):
        begin, finish = extent(alloc)
        if begin < end:
            groups[-1].append(alloc)
        else:
            groups.append([alloc])
        end = max(end, finish)
    return groups


def _apart(group: list[tile.Alloc], spans: dict[Value, tuple[int, int]], barriers: list[int]) -> list[list[tile.Alloc]]:
    """A group by phases: what no barrier of the outermost block parts stays together."""
    phases: list[list[tile.Alloc]] = []
    end = -1
    for alloc in sorted(group, key=lambda a: spans[a.result]):
        first, last = spans[alloc.result]
        if not phases or not any(end < barrier < first for barrier in barriers):
            phases = [*phases[:-1], [*phases[-1], alloc]] if phases else [[alloc]]
        else:
            phases.append([alloc])
        end = max(end, last)
    return phases


def _spans(kernel: Kernel, allocs: Sequence[tile.Alloc]) -> dict[Value, tuple[int, int]]:
    """For each buffer the numbers of the outermost operations that first and last touch it, themselves or inside. A
    copy counts where it is issued: that is what LLVM could move, and that it has landed is the waits' business."""
    buffers = {alloc.result for alloc in allocs}
    found: dict[Value, tuple[int, int]] = {}
    for number, outer in enumerate(kernel.body.ops):
        for op in _inside(outer):
            for value in op.operands:
                if value in buffers and not isinstance(op, thread.BufferAddress):
                    found[value] = found.get(value, (number, number))[0], number
    return found


def _inside(op: Op) -> Iterator[Op]:
    yield op
    for region in op.regions:
        for inner in region.ops:
            yield from _inside(inner)
