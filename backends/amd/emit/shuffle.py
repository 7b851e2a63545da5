"""Moves between the lanes of a wave: the compiler's own butterflies, and T.shfl_*.

    distance by exclusive or, a constant    DPP within 16 lanes, ds_swizzle within 32, ds_bpermute beyond
    anything else                           ds_bpermute: each lane computes the number of the one that it reads

A warp of the language has 32 threads on every target (64 where a shuffle asks for segments of 64): a wave has two of
them, and a lane that a warp does not have is none of the other half.

Sources: LLVM 22, IntrinsicsAMDGPU.td (ds_swizzle, ds_bpermute, update.dpp); "CDNA 3" Instruction Set Architecture,
"DPP" (quad_perm, row_ror, row_mirror), "DS_SWIZZLE_B32" (bit mask mode) and "DS_BPERMUTE_B32"; PTX ISA 8.3, 9.7.8.6
(shfl.sync, which lane is outside of a segment)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitile.backends.amd.emit.emitter import Emitter
from minitile.backends.amd.emit.llvm import scalar_type
from minitile.ir.builder import constant_of
from minitile.ir.core import Op, Value
from minitile.ir.ops import explicit, thread

WARP = 32  # threads that a shuffle is among, if it does not say 64
_QUAD_PERM = {1: 0xB1, 2: 0x4E, 3: 0x1B}  # [1,0,3,2], [2,3,0,1], [3,2,1,0]
_ROW_ROTATE_8 = 0x128  # row_ror:8: the lane whose number within 16 differs by 8
_ROW_MIRROR = {7: 0x141, 15: 0x140}  # row_half_mirror, row_mirror


def shuffle_xor(w: Emitter, op: thread.ShuffleXor) -> None:
    exchange(w, op.a, op.result, lambda x: _exclusive_or(w, x, op.mask))


def shuffle(w: Emitter, op: explicit.Shuffle) -> None:
    """A scalar from another lane of the warp (docs/tilelang.md says which). What it is that a lane outside of its
    segment asks for depends on its own number alone, so that constant distances cost one addition and one
    comparison."""
    distance = constant_of(op.lane)
    warp = max(op.width, WARP)
    if op.kind == "bfly" and distance is not None and 0 <= distance < op.width:
        exchange(w, op.value, op.result, lambda x: _exclusive_or(w, x, distance))
        return
    lane = _lane(w)
    own = w.let(f"and i32 {lane}, {warp - 1}")
    given = w.let(f"and i32 {w.element(op.lane)}, {warp - 1}")
    if op.kind == "idx":
        first, inside = w.let(f"and i32 {lane}, {-op.width}"), w.let(f"and i32 {given}, {op.width - 1}")
        source = w.let(f"or i32 {first}, {inside}")
    else:
        other = w.let(f"{ {'up': 'sub', 'down': 'add', 'bfly': 'xor'}[op.kind] } i32 {own}, {given}")
        if op.kind == "up":
            edge = w.let(f"and i32 {own}, {-op.width}")
            there = w.let(f"icmp sge i32 {other}, {edge}")
        else:
            edge = w.let(f"or i32 {own}, {op.width - 1}")
            there = w.let(f"icmp sle i32 {other}, {edge}")
        chosen = w.let(f"select i1 {there}, i32 {other}, i32 {own}")
        base = w.let(f"and i32 {lane}, {-warp}")
        source = w.let(f"or i32 {base}, {chosen}")
    place = w.let(f"shl i32 {source}, 2")
    exchange(w, op.value, op.result, lambda x: _permuted(w, place, x))


def exchange(w: Emitter, source: Value, result: Value, move: Callable[[str], str]) -> None:
    """result = `move`, from lane to lane, of every register of the source: of 32-bit words, narrow elements packed or
    widened, 64-bit ones in halves."""
    dtype = source.dtype
    words = w.words(source)
    if words is not None:
        w.define_words(result, [move(x) for x in words])
        return
    kind = scalar_type(dtype)

    def each(x: str) -> str:
        if dtype.bits == 64:
            pair = w.let(f"bitcast {kind} {x} to <2 x i32>")
            halves = [w.let(f"extractelement <2 x i32> {pair}, i64 {n}") for n in range(2)]
            moved = w.vector_of_words([move(h) for h in halves])
            return w.let(f"bitcast <2 x i32> {moved} to {kind}")
        bits = x if kind[0] == "i" else w.let(f"bitcast {kind} {x} to i16")
        narrow = kind if kind[0] == "i" else "i16"
        wide = w.let(f"zext {narrow} {bits} to i32")
        back = w.let(f"trunc i32 {move(wide)} to {narrow}")
        return back if kind[0] == "i" else w.let(f"bitcast i16 {back} to {kind}")

    w.each(result, [source], 1, each)


def _exclusive_or(w: Emitter, word: str, mask: int) -> str:
    """The word of the lane whose number differs by `mask`."""
    control = _QUAD_PERM.get(mask) or _ROW_MIRROR.get(mask) or (_ROW_ROTATE_8 if mask == 8 else None)
    if control is not None:
        numbers = [("i32", str(control)), ("i32", "15"), ("i32", "15"), ("i1", "true")]
        return w.call("llvm.amdgcn.update.dpp.i32", "i32", [("i32", "poison"), ("i32", word), *numbers])
    if mask < 32:
        return w.call("llvm.amdgcn.ds.swizzle", "i32", [("i32", word), ("i32", str(mask << 10 | 0x1F))])
    other = w.let(f"xor i32 {_lane(w)}, {mask}")
    return _permuted(w, w.let(f"shl i32 {other}, 2"), word)


def _lane(w: Emitter) -> str:
    """The lane's number in its wave."""
    low = w.call("llvm.amdgcn.mbcnt.lo", "i32", [("i32", "-1"), ("i32", "0")])
    return w.call("llvm.amdgcn.mbcnt.hi", "i32", [("i32", "-1"), ("i32", low)], "lane")


def _permuted(w: Emitter, place: str, word: str) -> str:
    """The word of the lane whose number `place` is four times."""
    return w.call("llvm.amdgcn.ds.bpermute", "i32", [("i32", place), ("i32", word)])


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    thread.ShuffleXor: shuffle_xor,
    explicit.Shuffle: shuffle,
}
