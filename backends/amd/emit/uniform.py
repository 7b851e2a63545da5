"""Values that all threads share, made scalars where scalars are needed: at branches, at loop bounds, in descriptors.

What the program means once is the same in all lanes of a wave (analysis/divergence.py); LLVM often cannot know, or has
it in a vector register all the same: what was loaded, floats, what came out of shuffles. Then it makes an execution
mask of a branch, and around each use of a descriptor a loop over the lanes. v_readfirstlane says what is known:

    %page = load i32, …                        the same in all lanes, in a vector register
    %x    = mul i64 %page, …                   so this, too
    %s    = readfirstlane %x                   once, where it is first needed
    make.buffer.rsrc(%base + %s, …)

Of a load from what the kernel itself writes other waves may get something else; the lanes of one get the same.

Source: LLVM 22, SIInstrInfo::legalizeOperands (loops over lanes), SIFixSGPRCopies (what goes to vector registers).
"""

from __future__ import annotations

from minitile.analysis.affine import Facts
from minitile.analysis.disjoint import Threads, in_whole_groups
from minitile.backends.amd.emit.emitter import Emitter
from minitile.backends.amd.emit.llvm import scalar_type
from minitile.ir.core import Kernel, Op, Value
from minitile.ir.diagnostics import InternalError
from minitile.ir.ops import arith, control, thread

# What is computed of scalars in scalar registers: integers and bools, but for divisions, which go through floats, and
# what compares the order of 64 bits.
_SCALAR: tuple[type[Op], ...] = (
    arith.Constant, arith.Add, arith.Sub, arith.Mul, arith.Min, arith.Max, arith.And, arith.Or, arith.Xor, arith.Shl,
    arith.Shr, arith.Neg, arith.Not, arith.Cmp, arith.Select, arith.Cast, arith.Reinterpret, thread.GlobalAddress,
    thread.BufferAddress, thread.Special,
)  # fmt: skip


def shared_in_lanes(kernel: Kernel, lanes: int) -> set[Value]:
    """The scalars of a kernel that are the same in all `lanes` of a wave, and for all that LLVM knows may lie in vector
    registers."""
    facts = Facts(kernel)
    threads = Threads(kernel, facts)
    ways = {op.condition for op in kernel.walk() if type(op) is control.If and not facts.uniform(op.condition)}
    alike = {v for v in _in_lanes(kernel) if facts.uniform(v) and thread.count_of(v.type) == 1}
    return alike | {v for v in ways if _by_wave(threads, v, lanes)}


def _by_wave(threads: Threads, condition: Value, lanes: int) -> bool:
    """Whether a condition that the thread's index decides holds in whole waves."""
    takes = threads.exactly(condition)
    return takes is not None and in_whole_groups(takes, lanes)


def _in_lanes(kernel: Kernel) -> set[Value]:
    """What is in vector registers, or made of it."""
    found: set[Value] = set()
    ops = list(kernel.walk())
    size = -1
    while size < len(found):
        size = len(found)
        for op in ops:
            if isinstance(op, control.Structured):
                for t in op.transfers():
                    for value, *targets in zip(t.values, *t.targets, strict=True):
                        if value in found:
                            found.update(v for v in targets if thread.in_registers(v))
            elif not _scalar(op) or not found.isdisjoint(op.operands):
                found.update(v for v in op.results if thread.in_registers(v))
    return found


def _scalar(op: Op) -> bool:
    if not isinstance(op, _SCALAR):
        return False
    if isinstance(op, arith.Cmp) and op.a.dtype.bits == 64 and op.predicate not in ("eq", "ne"):
        return False
    registers = [v for v in (*op.operands, *op.results) if thread.in_registers(v)]
    return isinstance(op, arith.Constant) or not any(v.dtype.is_float for v in registers)


def scalar(w: Emitter, value: Value) -> str:
    """The one element of a value that a branch, a loop or a descriptor needs, as a scalar where all lanes share it."""
    element = w.element(value)
    if value not in w.shared_in_lanes:
        return element
    return w.once(value, lambda: first_lane(w, element, scalar_type(value.dtype)))


def first_lane(w: Emitter, x: str, kind: str) -> str:
    """v_readfirstlane of an integer or a bool."""
    if kind == "i64":
        pair = w.let(f"bitcast i64 {x} to <2 x i32>")
        halves = [w.let(f"extractelement <2 x i32> {pair}, i64 {n}") for n in range(2)]
        return w.let(f"bitcast <2 x i32> {w.vector_of_words([_first(w, half) for half in halves])} to i64")
    if kind == "i32":
        return _first(w, x)
    if kind not in ("i1", "i8", "i16"):
        raise InternalError(f"a scalar of type {kind}", w.loc)
    wide = _first(w, w.let(f"zext {kind} {x} to i32"))
    return w.let(f"icmp ne i32 {wide}, 0") if kind == "i1" else w.let(f"trunc i32 {wide} to {kind}")


def _first(w: Emitter, x: str) -> str:
    return w.call("llvm.amdgcn.readfirstlane.i32", "i32", [("i32", x)], "same")
