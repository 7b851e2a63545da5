"""How the operations of sm_90a print: mbarriers, TMA, wgmma, setmaxnreg.

Sources: PTX ISA 8.3, 9.7.8.12 (st.async), 9.7.8.22 (mapa), 9.7.12.3 (barrier.cluster), 9.7.12.14 (elect.sync),
9.7.12.15 (mbarrier), 9.7.8.24.9 (cp.async.bulk.tensor), 9.7.8.24.10 (cp.reduce.async.bulk.tensor), 9.7.14 (wgmma),
9.7.17.5 (setmaxnreg).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from minitile.backends.nvidia.emit.emitter import Emitter, fills_words
from minitile.backends.nvidia.emit.memory import addresses, cache_hint, cp_async
from minitile.backends.nvidia.emit.ptx import register_type
from minitile.backends.nvidia.emit.warp import braces_of
from minitile.ir.core import Op, Value
from minitile.ir.ops import cluster, explicit, hopper, roles, thread
from minitile.ir.ops.thread import count_of
from minitile.ir.origin import Origin, places


def warp_index(w: Emitter, op: hopper.WarpIndex) -> None:
    """Broadcast from lane 0, so that the assembler may keep it in a uniform register."""
    tid, warp = w.temp("b32"), w.temp("b32")
    (target,) = w.targets(op.result)
    w.emit(f"mov.u32 {tid}, %tid.x;")
    w.emit(f"shr.u32 {warp}, {tid}, 5;")
    w.emit(f"shfl.sync.idx.b32 {target}, {warp}, 0, 31, 0xffffffff;")


def elect(w: Emitter, op: hopper.Elect) -> None:
    (target,) = w.targets(op.result)
    w.emit(f"elect.sync _|{target}, 0xffffffff;")


def _place(w: Emitter, address: Value) -> str:
    return addresses(w, address, (0,), (0,))[0]


def _guard(w: Emitter, predicate: Value | None) -> str | None:
    return w.guards(predicate, (0,), 1)[0]


def _mapa(w: Emitter, target: str, base: str, rank: Value) -> None:
    """target = the address of what is at `base` here, in the cluster's block `rank`."""
    w.emit(f"mapa.shared::cluster.u32 {target}, {base}, {w.register(w.element(rank), 'b32')};")


def mbarrier_init(w: Emitter, op: hopper.MbarrierInit) -> None:
    w.order(f"mbarrier.init.shared.b64 {_place(w, op.address)}, {op.count};")


def mbarrier_init_fence(w: Emitter, op: hopper.MbarrierInitFence) -> None:
    w.order("fence.mbarrier_init.release.cluster;")


def mbarrier_arrive(w: Emitter, op: hopper.MbarrierArrive) -> None:
    guard = _guard(w, op.predicate)
    if guard is None:
        return
    if op.rank is None:
        w.order(f"{guard}mbarrier.arrive.shared.b64 _, {_place(w, op.address)};")
        return
    base, plus, offset = _place(w, op.address)[1:-1].partition("+")
    there = w.temp("b32")
    _mapa(w, there, base, op.rank)
    scope = ".release.cluster" if op.cluster else ""
    w.order(f"{guard}mbarrier.arrive{scope}.shared::cluster.b64 _, [{there}{plus}{offset}];")


def cp_async_wait_all(w: Emitter, op: hopper.CpAsyncWaitAll) -> None:
    w.order("cp.async.wait_all;")


def mbarrier_expect(w: Emitter, op: hopper.MbarrierExpect) -> None:
    guard = _guard(w, op.predicate)
    if guard is not None:
        w.order(f"{guard}mbarrier.arrive.expect_tx.shared.b64 _, {_place(w, op.address)}, {op.bytes};")


def mbarrier_announce(w: Emitter, op: hopper.MbarrierAnnounce) -> None:
    guard = _guard(w, op.predicate)
    if guard is not None:
        w.order(f"{guard}mbarrier.expect_tx.relaxed.cta.shared::cta.b64 {_place(w, op.address)}, {op.bytes};")


def mbarrier_wait(w: Emitter, op: hopper.MbarrierWait) -> None:
    """try_wait suspends the thread for a while and may come back too early: again, then."""
    done, again = w.temp("pred"), w.code.label("wait")
    parity = w.register(w.element(op.parity), "b32")
    w.code.place(again)
    scope = ".acquire.cluster.shared::cta" if op.cluster else ".shared"
    w.order(f"mbarrier.try_wait.parity{scope}.b64 {done}, {_place(w, op.address)}, {parity};")
    w.emit(f"@!{done} bra {again};")


def _box(w: Emitter, op: hopper.TmaLoad | hopper.TmaStore) -> str:
    """The operand that names a box of a tensor map. In TileLang's programs, whose kernels may be short, maps are on
    their way before the first copy (PTX ISA 8.3, 9.7.8.15 "prefetch")."""
    at = ", ".join(w.register(w.element(c), "b32") for c in op.coordinates)
    fetch = "\n  prefetch.tensormap [{0}];" if w.fetch_maps else ""
    line = f"mov.b64 {{0}}, {op.map};\n  cvta.param.u64 {{0}}, {{0}};{fetch}"
    generic = w.at_top(("map", op.map), "b64", op.map, line)
    return f"[{generic}, {{{at}}}]"


def tma_load(w: Emitter, op: hopper.TmaLoad, place: Callable[[Emitter, Value], str] = _place, group: str = "") -> None:
    """`place`: what prints the address of the barrier; `group`: a modifier of the instruction."""
    guard = _guard(w, op.predicate)
    if guard is None:
        return
    ctas, more = "", ""
    if op.multicast is not None:
        mask = w.temp("b16")
        w.emit(f"cvt.u16.u32 {mask}, {w.register(w.element(op.multicast), 'b32')};")
        ctas, more = ".multicast::cluster", f", {mask}"
    hint, policy = cache_hint(w, op.evict)
    opcode = f"cp.async.bulk.tensor.{len(op.coordinates)}d"
    barrier = place(w, op.barrier)
    w.emit(
        f"{guard}{opcode}.shared::cluster.global.mbarrier::complete_tx::bytes{ctas}{group}{hint} "
        f"{_place(w, op.address)}, {_box(w, op)}, {barrier}{more}{policy};"
    )


def tma_store(w: Emitter, op: hopper.TmaStore) -> None:
    guard = _guard(w, op.predicate)
    if guard is not None:
        opcode = f"cp.async.bulk.tensor.{len(op.coordinates)}d"
        hint, policy = cache_hint(w, op.evict)
        w.emit(f"{guard}{opcode}.global.shared::cta.bulk_group{hint} {_box(w, op)}, {_place(w, op.address)}{policy};")


def tma_reduce(w: Emitter, op: hopper.TmaReduce) -> None:
    guard = _guard(w, op.predicate)
    if guard is not None:
        opcode = f"cp.reduce.async.bulk.tensor.{len(op.coordinates)}d"
        w.emit(f"{guard}{opcode}.global.shared::cta.{op.kind}.bulk_group {_box(w, op)}, {_place(w, op.address)};")


def map_rank(w: Emitter, op: thread.MapRank) -> None:
    (target,) = w.targets(op.result)
    _mapa(w, target, w.register(w.element(op.address), "b32"), op.rank)


def cluster_arrive(w: Emitter, op: Op) -> None:
    w.order("barrier.cluster.arrive.release.aligned;")


def cluster_wait(w: Emitter, op: Op) -> None:
    w.order("barrier.cluster.wait.acquire.aligned;")


def cluster_barrier(w: Emitter, op: hopper.ClusterBarrier) -> None:
    cluster_arrive(w, op)
    cluster_wait(w, op)


def async_store(w: Emitter, op: cluster.AsyncStore) -> None:
    """One instruction a register (PTX ISA 8.3, 9.7.8.12 "st.async")."""
    guards = w.guards(op.predicate, op.predicate_of, len(op.offsets))
    places = addresses(w, op.address, op.address_of, op.offsets)
    barrier, kind = _place(w, op.barrier), f"b{op.value.dtype.bits}"
    if op.value.dtype.is_float:
        kind = f"f{op.value.dtype.bits}"
    for guard, place, value in zip(guards, places, w.elements(op.value), strict=True):
        if guard is not None:
            opcode = f"st.async.shared::cluster.mbarrier::complete_tx::bytes.{kind}"
            w.emit(f"{guard}{opcode} {place}, {value}, {barrier};")


def set_max_registers(w: Emitter, op: hopper.SetMaxRegisters) -> None:
    w.emit(f"setmaxnreg.{'inc' if op.increase else 'dec'}.sync.aligned.u32 {op.count};")


_TYPE = {"f32": "tf32", "i8": "s8", "u8": "u8", "i32": "s32"}


def wgmma(w: Emitter, op: hopper.Wgmma) -> None:
    """Fence, the multiplications, commit. The accumulators are updated where they are; the first step of K adds to them
    or not (scale-d). Where A is in registers, the blocks of 64 rows come one after the other, each behind a fence: what
    ptxas finds to be equal in two of them has one set of registers, for which it would put a fence there (C7519)."""
    targets = w.targets(op.results[0])
    first = "0" if op.c is None else "1"
    if op.c is not None:
        _into(w, targets, op.c)
        if op.scale_d is not None:
            first = w.element(op.scale_d)
    from_registers = count_of(op.a.type) > 1
    a = w.words(op.a) if from_registers else []
    each = len(targets) // (op.blocks * op.strips)
    x_type, y_type = (_TYPE.get(t.name, t.name) for t in op.dtypes)
    d_type = "s32" if op.into.is_int else op.into.name
    opcode = f"wgmma.mma_async.sync.aligned.m64n{op.n}k{op.k}.{d_type}.{x_type}.{y_type}"
    flags = _flags(op, from_registers)
    fence = Origin("lower", "RAW registers: accumulator and fragments", places([op.loc]))
    for blocks in [[block] for block in range(op.blocks)] if from_registers else [range(op.blocks)]:
        w.order("wgmma.fence.sync.aligned;", fence)
        for k, block, strip in product(range(op.steps), blocks, range(op.strips)):
            registers = braces_of(targets, block * op.strips + strip, each)
            at = block * op.steps + k
            x = braces_of(a, at, 4) if from_registers else _moved(w, op.a, op.a_offsets[at])
            y = _moved(w, op.b, op.b_offsets[strip * op.steps + k])
            w.emit(f"{opcode} {registers}, {x}, {y}, {'1' if k else first}{flags};")
    w.emit("wgmma.commit_group.sync.aligned;")


def unset_registers(w: Emitter, op: hopper.UnsetRegisters) -> None:
    w.targets(op.result)


def fake_use(w: Emitter, op: hopper.FakeUse) -> None:
    """Prefetches of no address, under a condition that is never true: no grid has so many blocks."""
    words = [word for v in op.values for word in w.words(v)]
    block, never = w.temp("b32"), w.temp("pred")
    w.emit(f"mov.u32 {block}, %ctaid.x;")
    w.emit(f"setp.eq.u32 {never}, {block}, 0xffffffff;")
    for low, high in zip(words[::2], words[1::2], strict=True):
        pair = w.temp("b64")
        w.emit(f"mov.b64 {pair}, {{{low}, {high}}};")
        w.emit(f"@{never} prefetch.global.L2 [{pair}];")


def fragment(w: Emitter, op: roles.Fragment) -> None:
    """The operand's own words, or new ones; never made again where the gemm stands."""
    w.define_words(op.result, w.words(op.a))


def _flags(op: hopper.Wgmma, from_registers: bool) -> str:
    """Floats have the signs of a and b, those of 16 bits also whether a (in shared memory) and b are MN-major."""
    if op.into.is_int:
        return ""
    if op.dtypes[0].bits != 16:
        return ", 1, 1"
    transposes = [op.transpose_b] if from_registers else [op.transpose_a, op.transpose_b]
    return ", 1, 1, " + ", ".join(str(int(t)) for t in transposes)


def _into(w: Emitter, targets: list[str], value: Value) -> None:
    """Moves where an accumulator is not in its class's registers: narrow ones are whole words, as wgmma has them."""
    packed = fills_words(value)
    source = w.words(value) if packed else w.in_registers(value)
    if source != targets:
        kind = "b32" if packed else register_type(value.dtype)
        w.parallel([(d, s, kind) for d, s in zip(targets, source, strict=True)])


def _moved(w: Emitter, descriptor: Value, by: int) -> str:
    """Remembered by value, not by register: a loop steps the register that several values share."""
    register = w.element(descriptor)
    if not by:
        return register
    return w.once(("descriptor", descriptor, by), lambda: _add(w, register, by))  # type: ignore[no-any-return]


def _add(w: Emitter, descriptor: str, by: int) -> str:
    moved = w.temp("b64")
    w.emit(f"add.s64 {moved}, {descriptor}, {by};")
    return moved


def commit_gemms(w: Emitter, op: explicit.CommitGemms) -> None:
    w.emit("wgmma.commit_group.sync.aligned;")


def commit_stores(w: Emitter, op: explicit.CommitStores) -> None:
    w.emit("cp.async.bulk.commit_group;")


def wait_stores(w: Emitter, op: explicit.WaitStores) -> None:
    w.order(f"cp.async.bulk.wait_group{'.read' if op.reads else ''} {op.pending};")


def wait_gemms(w: Emitter, op: explicit.WaitGemms) -> None:
    w.order(f"wgmma.wait_group.sync.aligned {op.pending};")


def await_(w: Emitter, op: roles.Await) -> None:
    if op.pending is not None:
        w.order(f"wgmma.wait_group.sync.aligned {op.pending};")
    targets = w.targets(op.result)
    _into(w, targets, op.a)
    written = _guard(w, op.written)
    if written == "":
        return
    done = w.code.label("written")
    if written is not None:
        w.emit(f"{written}bra {done};")
    for target in targets:
        w.emit(f"mov.b32 {target}, 0;")
    if written is not None:
        w.code.place(done)


def named_barrier(w: Emitter, op: hopper.NamedBarrier) -> None:
    w.order(f"bar.{'arrive' if op.arrive else 'sync'} {w.element(op.id)}, {op.threads};")


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    hopper.WarpIndex: warp_index,
    hopper.Elect: elect,
    hopper.MbarrierInit: mbarrier_init,
    hopper.MbarrierInitFence: mbarrier_init_fence,
    hopper.MbarrierArrive: mbarrier_arrive,
    hopper.MbarrierExpect: mbarrier_expect,
    hopper.MbarrierAnnounce: mbarrier_announce,
    hopper.MbarrierWait: mbarrier_wait,
    hopper.TmaLoad: tma_load,
    hopper.TmaStore: tma_store,
    hopper.TmaReduce: tma_reduce,
    hopper.ClusterBarrier: cluster_barrier,
    hopper.CpAsyncWaitAll: cp_async_wait_all,
    hopper.UngroupedCpAsync: cp_async,
    hopper.ClusterArrive: cluster_arrive,
    hopper.ClusterWait: cluster_wait,
    thread.MapRank: map_rank,
    cluster.AsyncStore: async_store,
    cluster.AwaitStores: mbarrier_wait,
    hopper.SetMaxRegisters: set_max_registers,
    hopper.UnsetRegisters: unset_registers,
    hopper.Wgmma: wgmma,
    hopper.FakeUse: fake_use,
    roles.Fragment: fragment,
    roles.Await: await_,
    hopper.NamedBarrier: named_barrier,
    explicit.CommitGemms: commit_gemms,
    explicit.WaitGemms: wait_gemms,
    explicit.CommitStores: commit_stores,
    explicit.WaitStores: wait_stores,
}
