"""How the operations of tensor memory (PTX ISA 8.8, 9.7.16.7 to 9.7.16.12) and of cluster launch control (9.7.13.17,
9.7.13.18) print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitile.backends.nvidia.blackwell.shapes import NVF4
from minitile.backends.nvidia.emit.emitter import Emitter
from minitile.backends.nvidia.emit.hopper import _guard, _moved, _place, tma_load
from minitile.ir.core import Op, Value
from minitile.ir.ops import blackwell, launch_control
from minitile.ir.origin import Origin, places

# Of an address in shared memory of a pair's CTA: the same place in the even one (CUTLASS, include/cute/arch/
# copy_sm100_tma.hpp, Sm100MmaPeerBitMask; DeepGEMM's kernels of pairs).
OF_EVEN_CTA = "0xFEFFFFFF"


def memory_alloc(w: Emitter, op: blackwell.TensorMemoryAlloc) -> None:
    group = _group(op)
    w.order(f"tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 {_place(w, op.address)}, {op.columns};")
    w.emit(f"tcgen05.relinquish_alloc_permit.{group}.sync.aligned;")


def _group(op: Any) -> str:
    return f"cta_group::{1 + op.pair}"


def memory_address(w: Emitter, op: blackwell.TensorMemoryAddress) -> None:
    (target,) = w.targets(op.result)
    w.emit(f"ld.shared.b32 {target}, {_place(w, op.address)};")


def memory_free(w: Emitter, op: blackwell.TensorMemoryFree) -> None:
    address = w.register(w.element(op.memory), "b32")
    w.order(f"tcgen05.dealloc.{_group(op)}.sync.aligned.b32 {address}, {op.columns};")


def alloc(w: Emitter, op: blackwell.TensorAlloc) -> None:
    """A name for columns."""


def products(w: Emitter, op: blackwell.TensorProducts) -> None:
    opcode = f"tcgen05.mma.{_group(op)}.kind::{op.kind}"
    if op.kind.startswith(NVF4.name):
        w.isa = max(w.isa, "8.7", key=float)
    d = w.register(w.element(op.d), "b32")
    always, adds = w.temp("pred"), w.temp("pred")
    w.emit(f"setp.eq.u32 {always}, 0, 0;")
    given = w.element(op.accumulate)
    if given.startswith("%"):
        adds = given
    else:
        w.emit(f"setp.ne.u32 {adds}, {int(given, 0)}, 0;")
    steps = len(op.b_offsets) // len(op.d_offsets)
    for at, offset in enumerate(op.a_offsets):
        part, k = divmod(at, steps)
        to = f"[{d}+{op.d_offsets[part]}]" if op.d_offsets[part] else f"[{d}]"
        y = _moved(w, op.b, op.b_offsets[at])
        x = _column(w, op.a, offset) if op.a_in_tensor else _moved(w, op.a, offset)
        word = w.register(str(_signed(op.instructions[k])), "b32")
        scales = ""
        if op.a_scale is not None and op.b_scale is not None:
            places = (op.a_scale, op.a_scale_offsets[at]), (op.b_scale, op.b_scale_offsets[k])
            scales = "".join(f"{_column(w, *place)}, " for place in places)
        w.emit(f"{opcode} {to}, {x}, {y}, {word}, {scales}{always if k else adds};")


def copies(w: Emitter, op: blackwell.TensorCopies) -> None:
    for offset, column in zip(op.offsets, op.columns, strict=True):
        source = _moved(w, op.descriptor, offset)
        w.emit(f"tcgen05.cp.{_group(op)}.32x128b.warpx4 {_column(w, op.address, column)}, {source};")


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def _column(w: Emitter, address: Value, offset: int) -> str:
    first = w.register(w.element(address), "b32")
    return f"[{first}+{offset}]" if offset else f"[{first}]"


def commit(w: Emitter, op: blackwell.Tcgen05Commit) -> None:
    ctas, more = "", ""
    if op.pair:
        mask = w.temp("b16")
        w.emit(f"mov.b16 {mask}, 3;")
        ctas, more = ".multicast::cluster", f", {mask}"
    opcode = f"tcgen05.commit.{_group(op)}.mbarrier::arrive::one.shared::cluster{ctas}.b64"
    w.order(f"{opcode} {_place(w, op.address)}{more};")


def fence(w: Emitter, op: blackwell.Tcgen05Fence) -> None:
    w.order(f"tcgen05.fence::{op.side}_thread_sync;")


def registers(w: Emitter, op: blackwell.TensorRegisters) -> None:
    """The registers are there behind the wait."""
    targets = w.targets(op.result)
    at = 0
    for column, count in zip(op.columns, op.counts, strict=True):
        part = ", ".join(targets[at : at + count])
        w.emit(f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {{{part}}}, {_column(w, op.address, column)};")
        at += count
    w.order("tcgen05.wait::ld.sync.aligned;", Origin("tensor_memory", "registers loaded", places([op.loc])))


def write(w: Emitter, op: blackwell.TensorWrite) -> None:
    words = w.words(op.value) if op.value.dtype.bits < 32 else w.in_registers(op.value)
    at = 0
    for column, count in zip(op.columns, op.counts, strict=True):
        part = ", ".join(words[at : at + count])
        w.emit(f"tcgen05.st.sync.aligned.32x32b.x{count}.b32 {_column(w, op.address, column)}, {{{part}}};")
        at += count


def _in_even_cta(w: Emitter, address: Value) -> str:
    even = w.temp("b32")
    w.emit(f"and.b32 {even}, {w.register(w.element(address), 'b32')}, {OF_EVEN_CTA};")
    return f"[{even}]"


def pair_load(w: Emitter, op: blackwell.PairLoad) -> None:
    tma_load(w, op, _in_even_cta, ".cta_group::2")


def try_cancel(w: Emitter, op: launch_control.TryCancel) -> None:
    guard = _guard(w, op.predicate)
    if guard is not None:
        everywhere = ".multicast::cluster::all" if op.multicast else ""
        opcode = f"clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{everywhere}.b128"
        w.emit(f"{guard}{opcode} {_place(w, op.address)}, {_place(w, op.barrier)};")


def query_cancel(w: Emitter, op: launch_control.QueryCancel) -> None:
    """Of a request that failed the first block is not defined."""
    answer, granted, first = w.temp("b128"), *(w.targets(result)[0] for result in op.results)
    opcode = "clusterlaunchcontrol.query_cancel"
    w.emit(f"ld.shared.b128 {answer}, {_place(w, op.address)};")
    w.emit(f"{opcode}.is_canceled.pred.b128 {granted}, {answer};")
    w.emit(f"mov.b32 {first}, 0;")
    w.emit(f"@{granted} {opcode}.get_first_ctaid::x.b32.b128 {first}, {answer};")


def wait(w: Emitter, op: blackwell.Tcgen05Wait) -> None:
    w.order(f"tcgen05.wait::{op.kind}.sync.aligned;")


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    blackwell.TensorMemoryAlloc: memory_alloc,
    blackwell.TensorMemoryAddress: memory_address,
    blackwell.TensorMemoryFree: memory_free,
    blackwell.TensorAlloc: alloc,
    blackwell.TensorCopies: copies,
    blackwell.TensorProducts: products,
    blackwell.Tcgen05Commit: commit,
    blackwell.Tcgen05Fence: fence,
    blackwell.Tcgen05Wait: wait,
    blackwell.TensorRegisters: registers,
    blackwell.TensorWrite: write,
    blackwell.PairLoad: pair_load,
    launch_control.TryCancel: try_cancel,
    launch_control.QueryCancel: query_cancel,
}
