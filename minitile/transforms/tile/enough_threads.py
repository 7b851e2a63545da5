"""More threads where a thread's fragments do not fit its registers.

A program may leave the number of its threads to the compiler (the attribute `resources_are_hints`; TileLang's programs
do, whose compiler chooses what a thread holds). Where the fragments of a thread need more registers than it has, it has
twice as many threads, as long as none of its code says how many there are: tile operations and T.Parallel spread over
any number, and what all threads do alike is the same for more of them. What takes a thread's index, its warp, a number
of threads that meet, or an atomic of each thread keeps the number that the program says.

Where the sum of fragments is over a thread's registers, some of them may not be live at once; then more threads than
needed are no harm. Two warpgroups' products beside each other in one of them would be: ptxas lets such wgmmas go one
after the other, and spills their results.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (255 registers of a thread).
"""

from __future__ import annotations

from minitile.hardware import Target
from minitile.ir.core import Block, Kernel, Op
from minitile.ir.ops import arith, control, tile, views
from minitile.ir.types import BufferType

FREE = 15  # registers beside the fragments: addresses, indices, sums
MOST = 512  # threads, beside which a producer warpgroup has room

_ANY_NUMBER = (
    *(control.Yield, control.For, control.While, control.Condition, control.If, control.Parallel, control.Statement),
    *(arith.Constant, arith.Unary, arith.Binary, arith.Cmp, arith.Select, arith.Fma, arith.Cast, arith.Reinterpret),
    *(arith.Assume, arith.Within, views.View, tile.Alloc, tile.Load, tile.Store, tile.Copy, tile.Fill, tile.GemmInto),
    *(tile.ReduceInto, tile.DeviceAssert),
)


def enough_threads(kernel: Kernel, launch: control.Launch, target: Target, notes: list[str]) -> None:
    """Doubles the launch's threads until the fragments fit, where the program allows it."""
    if not kernel.attrs.get("resources_are_hints") or kernel.attrs.get("counts_threads"):
        return
    needed = sum(_words(op.type_) for op in kernel.walk() if isinstance(op, tile.Alloc))
    threads, room = launch.threads, target.max_registers - FREE
    while needed > room * threads and threads < MOST:
        threads *= 2
    if threads == launch.threads or needed > room * threads or not _any_number(launch.body):
        return
    per_thread = -(-needed // launch.threads)
    notes.append(f"threads: {threads} in place of {launch.threads}, whose fragments need {per_thread} registers each")
    launch.threads = kernel.attrs["threads"] = threads


def _words(type_: BufferType) -> int:
    """32-bit words of a fragment; 0 of other storage."""
    if type_.space != "fragment":
        return 0
    count = type_.versions
    for n in type_.shape:
        count *= n
    return -(-count * type_.dtype.bits // 32)


def _any_number(block: Block, apart: bool = False) -> bool:
    """Whether operations do the same for any number of threads. apart: they are spread over them."""
    return all(_alike(op, apart) for op in block.ops)


def _alike(op: Op, apart: bool) -> bool:
    apart = apart or isinstance(op, control.Parallel)
    if isinstance(op, tile.AtomicRmw):
        return apart or bool(op.value.shape)
    return isinstance(op, _ANY_NUMBER) and all(_any_number(region, apart) for region in op.regions)
