"""Programs with one fault each: a sound twin (sound.py, sound_async.py), in which a piece of the text stands
differently.

What a fault is, is said by the group that it stands in; `DEEP` ones come about from some round on only.
"""

from __future__ import annotations

import tests.proof.foreign.sound_async  # noqa: F401  # adds its programs to SOUND
from tests.proof.foreign.sound import SOUND, Text

BROKEN: dict[str, Text] = {}
TWIN: dict[str, str] = {}


def broken(name: str, twin: str, old: str, new: str, count: int = 1) -> None:
    """The twin with `count` places of `old` that stand as `new` (all there are, or the first)."""
    text = SOUND[twin]
    assert old in text.body, (name, old)
    assert name not in BROKEN
    body = text.body.replace(old, new) if count == 0 else text.body.replace(old, new, count)
    BROKEN[name] = Text(body, text.threads, text.shared, text.boxes)
    TWIN[name] = twin


BAR = "    bar.sync 0;\n"

# A barrier is missing: what is read need not be written yet, or what is written need not be read.
broken("no barrier before the neighbour is read", "neighbour", BAR, "")
broken("a barrier of a warp only", "neighbour", BAR, "    bar.warp.sync -1;\n")
broken("a transpose without a barrier", "transpose", BAR, "")
broken("a tree without a barrier for each level", "tree_reduction", "SKIP:\n    bar.sync 0;", "SKIP:")
broken("a warp too few at the barrier of sums", "warp_sums", BAR, "    bar.sync 0, 96;\n")
broken(
    "maxima overwritten by sums",
    "softmax_row",
    "    bar.sync 0;                         // all have read the maxima\n",
    "",
)
broken("arrays that overlap", "softmax_two_arrays", "+512", "+12", 0)
broken(
    "a scan that adds before all have read",
    "scan_in_place",
    "    bar.sync 0;\n    ld.shared.u32 %r12",
    "    ld.shared.u32 %r12",
)
broken(
    "a scan whose steps overlap",
    "scan_in_place",
    "    bar.sync 0;\n    shl.b32 %r7, %r7, 1;",
    "    shl.b32 %r7, %r7, 1;",
)
broken("buffers that are not exchanged", "scan_two_buffers", "    mov.u32 %r21, %r22;\n", "    mov.u32 %r21, %r20;\n")
broken("a histogram read too early", "histogram", "1;\n    bar.sync 0;", "1;")
broken("bins that are not cleared in time", "histogram", "[%r5+512], %r6;\n    bar.sync 0;", "[%r5+512], %r6;")
broken(
    "a histogram without atomics",
    "histogram",
    "atom.shared.add.u32 %r8, [%r7], 1;",
    "ld.shared.u32 %r8, [%r7];\n    add.u32 %r8, %r8, 1;\n    st.shared.u32 [%r7], %r8;",
)
broken("bins beyond those that are cleared", "histogram_loop", "bfe.u32 %r7, %r7, 3, 7;", "bfe.u32 %r7, %r7, 3, 8;")
broken("a table looked up before it is there", "lookup_table", BAR, "")
broken("an index beyond the table", "lookup_table", "and.b32 %r6, %r6, 127", "and.b32 %r6, %r6, 255")
broken("one slot instead of two", "double_buffer_loop", "add.u32 %r8, %r5, 512;", "add.u32 %r8, %r5, 0;")
broken(
    "the back of the loop without a barrier",
    "one_buffer_loop",
    "    bar.sync 0;\n    add.s64 %rd3, %rd3, 512;",
    "    add.s64 %rd3, %rd3, 512;",
)
broken(
    "the next tile stored too early",
    "register_prefetch",
    "    bar.sync 0;\n    add.s32 %r8, %r8, 1;",
    "    add.s32 %r8, %r8, 1;",
)
broken(
    "persistent tiles without the second barrier",
    "persistent_tiles",
    "    bar.sync 0;\n    add.u32 %r6, %r6, %r7;",
    "    add.u32 %r6, %r6, %r7;",
)
broken("warps that exit before a barrier of all", "two_warps_go_on", "bar.sync 1, 64;", "bar.sync 0;", 0)
broken("a barrier in one way of a branch", "if_else_by_lanes", "    bra JOIN;", "    bar.sync 0;\n    bra JOIN;")
broken(
    "both ways store to one place",
    "if_else_by_lanes",
    "    st.shared.u32 [%r5], %r0;\n    ld.shared.u32 %r7, [%r5];",
    "    st.shared.u32 [%r5+516], %r0;\n    ld.shared.u32 %r7, [%r5+516];",
)
broken("a halo that is not loaded", "halo", "    st.shared.f32 [%r5+520], %f1;\n", "")
broken("a sort without a barrier", "bitonic_sort", "NEXT:\n    bar.sync 0;", "NEXT:")
broken("lanes that have not met", "warp_transpose", "    bar.warp.sync 0xffffffff;\n", "")
broken(
    "shuffles do not order memory",
    "warp_transpose",
    "    bar.warp.sync 0xffffffff;\n",
    "    shfl.sync.idx.b32 %r14, %r0, 0, 31, 0xffffffff;\n",
)
broken(
    "a leader that writes anew before all have read",
    "leader_tells",
    "    bar.sync 0;\n    add.u32 %r6",
    "    add.u32 %r6",
)
broken(
    "a tile fetched before all know the last",
    "dynamic_tiles",
    "    bar.sync 0;\n    setp.ge.u32 %p1",
    "    setp.ge.u32 %p1",
)
broken(
    "a vote that each warp takes for itself",
    "relax_until_still",
    "    bar.red.or.pred %p1, 0, %p0;\n",
    "    bar.sync 0;\n    vote.sync.any.pred %p1, %p0, 0xffffffff;\n",
)
broken(
    "a step before all have compared",
    "relax_until_still",
    "    bar.sync 0;\n    st.shared.u32 [%r5], %r11;",
    "    st.shared.u32 [%r5], %r11;",
)
broken("generic stores without a barrier", "generic_addresses", BAR, "")
broken("volatile is no barrier", "volatile_and_warps", "    bar.warp.sync -1;\n", "")

# Named barriers: who arrives, for how many, in which order.
broken(
    "a slot refilled before it is free",
    "named_barriers",
    "PRODUCE:\n    bar.sync 2, 128;                    // free\n",
    "PRODUCE:\n",
)
broken(
    "the last round waits for ever",
    "named_barriers",
    "    @%p2 bra PRODUCE;\n    bar.sync 2, 128;\n",
    "    @%p2 bra PRODUCE;\n    bar.sync 3, 128;\n",
)
broken(
    "waits for each other in the wrong order", "named_barriers", "CONSUMER:\n    bar.arrive 2, 128;\n", "CONSUMER:\n"
)
broken(
    "both groups have the first turn",
    "turns_of_two_groups",
    "    @%p0 bra BEGIN;\n    bar.arrive 1, 128;",
    "    bra BEGIN;\n    bar.arrive 1, 128;",
)
broken("turns not handed on", "turns_of_two_groups", "    bar.arrive %r8, 128;\n", "")

# cp.async: waits and groups.
broken("copies that are not waited for", "cp_async_once", "    cp.async.wait_all;\n", "")
broken(
    "a barrier before the wait",
    "cp_async_once",
    "    cp.async.wait_all;\n    bar.sync 0;\n",
    "    bar.sync 0;\n    cp.async.wait_all;\n",
)
broken("one group too many in flight", "cp_async_two_stages", "cp.async.wait_group 1;", "cp.async.wait_group 2;")
broken(
    "DEEP the last tile is not waited for",
    "cp_async_two_stages",
    "    @%p1 bra LAST;\n    cp.async.cg.shared.global [%r12], [%rd5], 16;\nLAST:\n    cp.async.commit_group;",
    "    @%p1 bra LAST;\n    cp.async.cg.shared.global [%r12], [%rd5], 16;\n    cp.async.commit_group;\nLAST:",
)
broken(
    "the slot overwritten while it is read",
    "cp_async_two_stages",
    "    bar.sync 0;\n    mov.u32 %r7, %r11;",
    "    mov.u32 %r7, %r11;",
)
broken(
    "DEEP a ring of three filled three ahead", "cp_async_three_stages", "    mov.u32 %r10, 2;", "    mov.u32 %r10, 0;"
)
broken("a ring that wraps too early", "cp_async_three_stages", "setp.eq.u32 %p4, %r10, 3;", "setp.eq.u32 %p4, %r10, 2;")
broken("groups that are not committed", "mma_tile", "    cp.async.commit_group;\n", "")
broken("a matrix beyond the tile", "mma_tile", "shl.b32 %r7, %r7, 6;", "shl.b32 %r7, %r7, 8;")

# mbarriers: initialisation, bytes, parities, counts.
broken("no fence behind the initialisation", "tma_once", "    fence.mbarrier_init.release.cluster;\n", "")
broken("more bytes than are expected", "tma_once", "_, [%r6], 2048;", "_, [%r6], 1024;")
broken("fewer bytes than are expected", "tma_once", "_, [%r6], 2048;", "_, [%r6], 4096;")
broken("the wrong parity at once", "tma_once", "P1, [%r6], 0;", "P1, [%r6], 1;")
broken("a bulk copy that is not aligned", "bulk_copy_without_a_map", "[%r1], [%rd0], 512", "[%r1+8], [%rd0], 512")
broken("one operand's bytes only", "two_operands_one_mbarrier", "3072", "2048")
broken(
    "bytes expected behind the copy",
    "two_operands_one_mbarrier",
    "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 3072;\n",
    "",
)
broken("slots that no warp waits for", "tma_ring_each_thread_arrives", "P1, [%r17], %r18;", "P1, [%r7+32], %r18;")
broken("an arrival too few", "tma_ring_each_thread_arrives", "[%r11], 128;", "[%r11], 129;")
broken("an arrival too many", "tma_ring_each_thread_arrives", "[%r11], 128;", "[%r11], 64;")
broken(
    "no proxy fence in front of the next copy",
    "tma_ring_each_thread_arrives",
    "    fence.proxy.async.shared::cta;      // the next copy into the slot is behind this read\n",
    "",
)
broken("released before it is read", "tma_ring_each_warp_arrives", "    bar.warp.sync 0xffffffff;\n", "")
broken("one phase bit for the whole ring", "tma_ring_each_warp_arrives", "    xor.b32 %r13, %r13, %r20;\n", "")
broken(
    "DEEP a phase that stays from the second lap on",
    "tma_ring_each_warp_arrives",
    "    @%p5 xor.b32 %r13, %r13, 1;",
    "    @%p5 or.b32 %r13, %r13, 1;",
)
broken("the producer does not wait for free slots", "tma_ring_each_warp_arrives", "P1, [%r17], %r18;", "P1, [%r7], 1;")
broken(
    "the consumer stops a tile early",
    "tma_ring_each_warp_arrives",
    "    @%p6 bra CONSUME;",
    "    add.u32 %r22, %r14, 1;\n    setp.lt.u32 %p6, %r22, %r9;\n    @%p6 bra CONSUME;",
)

# Products of warpgroups.
broken("released while the product reads", "wgmma_ring", "    wgmma.wait_group.sync.aligned 0;\n", "")
broken("no fence in front of the product", "wgmma_ring", "    wgmma.fence.sync.aligned;\n", "")
broken(
    "released one product early", "wgmma_ring_released_late", "wait_group.sync.aligned 1;", "wait_group.sync.aligned 2;"
)
broken("the last product not waited for", "wgmma_ring_released_late", "    wgmma.wait_group.sync.aligned 0;\n", "")
broken("stores that the product does not see", "wgmma_from_plain_stores", "    fence.proxy.async.shared::cta;\n", "")
broken(
    "stores while the product reads",
    "wgmma_from_plain_stores",
    "wait_group.sync.aligned 0;",
    "wait_group.sync.aligned 1;",
)

# Copies out of shared memory.
broken(
    "the next load over tiles that are read",
    "tma_one_role",
    "    fence.proxy.async.shared::cta;\n    bar.sync 0;\n",
    "    fence.proxy.async.shared::cta;\n",
)
broken(
    "DEEP a phase that flips each round",
    "tma_one_role",
    "    shr.u32 %r13, %r14, 1;\n    and.b32 %r13, %r13, 1;\n",
    "    and.b32 %r13, %r14, 1;\n",
)
broken("a store that the copy does not see", "tma_store", "    fence.proxy.async.shared::cta;\n", "")
broken(
    "the fence by one thread only",
    "tma_store",
    "    fence.proxy.async.shared::cta;\n    bar.sync 0;\n    setp.ne.u32 %p0, %r0, 0;\n    @%p0 bra DONE;\n",
    "    bar.sync 0;\n    setp.ne.u32 %p0, %r0, 0;\n    @%p0 bra DONE;\n    fence.proxy.async.shared::cta;\n",
)
broken("ends while it is copied out", "tma_store", "    cp.async.bulk.wait_group 0;\n", "")
broken(
    "overwritten while it is copied out",
    "bulk_store_loop",
    "    @%p0 cp.async.bulk.wait_group.read 0;   // the store before has read the buffer\n",
    "",
)
broken(
    "a group too many copied out",
    "bulk_store_loop",
    "cp.async.bulk.wait_group.read 0;   //",
    "cp.async.bulk.wait_group.read 1;   //",
)
broken("a reduction of stores that are not seen", "bulk_reduction", "    fence.proxy.async.shared::cta;\n", "")
broken("a parity that does not flip", "mbarrier_as_a_barrier", "    xor.b32 %r7, %r7, 1;\n", "")
broken("slots of two rounds in one", "mbarrier_as_a_barrier", "and.b32 %r10, %r8, 1;", "and.b32 %r10, %r8, 0;")
broken(
    "a token of an arrival that is not made", "mbarrier_by_tokens", "    mbarrier.arrive.shared.b64 %rd20, [%r6];\n", ""
)
broken(
    "arrives before its copy is complete",
    "cp_async_into_a_ring",
    "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r16];",
    "mbarrier.arrive.shared::cta.b64 _, [%r16];",
)
broken(
    "copies over what is read",
    "cp_async_into_a_ring",
    "    ld.shared.v4.f32 {%f0, %f1, %f2, %f3}, [%r19];\n    mbarrier.arrive.shared::cta.b64 _, [%r17];\n",
    "    mbarrier.arrive.shared::cta.b64 _, [%r17];\n    ld.shared.v4.f32 {%f0, %f1, %f2, %f3}, [%r19];\n",
)
broken("bytes of one warp too few", "st_async", "_, [%r6], 512;", "_, [%r6], 384;")
broken(
    "an epilogue over the last tile",
    "epilogue_reuses_a_stage",
    "    bar.sync 0;                         // the loop is over for all\n",
    "",
)
