"""A warp-specialised GEMM for sm_90a written by hand: the main test subject of the simulator's Hopper part.

C[M, N] = A[M, K] @ B[N, K]^T in bf16, tiles of 64 x 64 x 64, 256 threads: one warp of the first warpgroup loads by TMA
into a ring, the second warpgroup multiplies, and stores through shared memory by TMA. CTAs go on to further tiles.
"""

from __future__ import annotations

from tests.sim.ptx.hopper import frame

SLOT = 16384  # bytes: 64 rows of A and of B, 128 bytes each
TILE = 8192  # bytes of the result


def hopper_gemm(stages: int = 2) -> str:
    """The text; parameters: maps of A, B and C with boxes of 64 x 64 and 128-byte swizzles, then pointers to u32 tile
    columns, tiles, and blocks of K."""
    accumulators = ", ".join(f"d{i}" for i in range(32))
    products = "\n".join(
        f"    add.u64 y2, y0, {2 * k};\n    add.u64 y3, y1, {2 * k};\n    setp.ne.u32 p, {'k' if k == 0 else 1}, 0;\n"
        f"    wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{accumulators}}}, y2, y3, p, 1, 1, 0, 0;"
        for k in range(4)
    )
    stores = "\n".join(
        "\n".join(f"    cvt.rn.bf16x2.f32 v{i}, d{8 * j + 2 * i + 1}, d{8 * j + 2 * i};" for i in range(4))
        + f"\n    xor.b32 x9, x8, {32 * j};\n"
        "    stmatrix.sync.aligned.m8n8.x4.shared.b16 [x9], {v0, v1, v2, v3};"
        for j in range(4)
    )
    inits = "\n".join(
        f"    mbarrier.init.shared::cta.b64 [full+{8 * i}], 1;\n    mbarrier.init.shared::cta.b64 [empty+{8 * i}], 4;"
        for i in range(stages)
    )
    body = f"""    add.u32 full, bar, 0;
    add.u32 empty, bar, {8 * stages};
    ld.global.u32 columns, [a0];
    ld.global.u32 tiles, [a0+4];
    ld.global.u32 blocks, [a0+8];
    mov.u32 tile, cta;
    mov.u32 step, %nctaid.x;
    mov.u32 slot, 0;
    @!lead bra READY;
{inits}
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    shr.u32 group, warp, 2;
    setp.ne.u32 p, group, 0;
    @p bra CONSUMER;
    setmaxnreg.dec.sync.aligned.u32 40;
    setp.ne.u32 p, warp, 0;
    @p bra END;
    mov.u32 phase, 1;
    elect.sync _|r, -1;
LOADTILE:
    setp.ge.u32 p, tile, tiles;
    @p bra END;
    div.u32 row, tile, columns;
    rem.u32 col, tile, columns;
    shl.b32 row, row, 6;
    shl.b32 col, col, 6;
    mov.u32 k, 0;
LOAD:
    shl.b32 x0, slot, 3;
    add.u32 x1, x0, full;
    add.u32 x2, x0, empty;
ROOM:
    mbarrier.try_wait.parity.shared::cta.b64 p, [x2], phase;
    @!p bra ROOM;
    mad.lo.u32 x3, slot, {SLOT}, s;
    add.u32 x4, x3, {SLOT // 2};
    shl.b32 x5, k, 6;
    @r mbarrier.arrive.expect_tx.shared::cta.b64 _, [x1], {SLOT};
    @r cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [x3], [m0, {{x5, row}}], [x1];
    @r cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [x4], [m1, {{x5, col}}], [x1];
    add.u32 slot, slot, 1;
    setp.eq.u32 q, slot, {stages};
    @q mov.u32 slot, 0;
    @q xor.b32 phase, phase, 1;
    add.u32 k, k, 1;
    setp.lt.u32 p, k, blocks;
    @p bra LOAD;
    add.u32 tile, tile, step;
    bra LOADTILE;
CONSUMER:
    setmaxnreg.inc.sync.aligned.u32 256;
    mov.u32 phase, 0;
    setp.eq.u32 r, lane, 0;
    setp.eq.u32 leader, tid, 128;
    and.b32 x6, warp, 3;
    shl.b32 x6, x6, 11;
    and.b32 x7, lane, 15;
    shl.b32 x7, x7, 7;
    add.u32 x6, x6, x7;
    shr.u32 x8, lane, 4;
    and.b32 x7, lane, 7;
    xor.b32 x8, x8, x7;
    shl.b32 x8, x8, 4;
    add.u32 x8, x8, x6;
    add.u32 x8, x8, s;
    add.u32 x8, x8, {stages * SLOT};
    add.u32 out, s, {stages * SLOT};
MULTIPLYTILE:
    setp.ge.u32 p, tile, tiles;
    @p bra DONE;
    mov.u32 k, 0;
MULTIPLY:
    shl.b32 x0, slot, 3;
    add.u32 x1, x0, full;
    add.u32 x2, x0, empty;
DATA:
    mbarrier.try_wait.parity.shared::cta.b64 p, [x1], phase;
    @!p bra DATA;
    mad.lo.u32 x3, slot, {SLOT}, s;
    and.b32 x3, x3, 0x3FFFF;
    shr.u32 x3, x3, 4;
    cvt.u64.u32 y0, x3;
    add.u64 y0, y0, {64 << 32 | 1 << 16 | 1 << 62};
    add.u64 y1, y0, {SLOT // 32};
    wgmma.fence.sync.aligned;
{products}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    @r mbarrier.arrive.shared::cta.b64 _, [x2];
    add.u32 slot, slot, 1;
    setp.eq.u32 q, slot, {stages};
    @q mov.u32 slot, 0;
    @q xor.b32 phase, phase, 1;
    add.u32 k, k, 1;
    setp.lt.u32 p, k, blocks;
    @p bra MULTIPLY;
    @leader cp.async.bulk.wait_group.read 0;
    bar.sync 1, 128;
{stores}
    fence.proxy.async.shared::cta;
    bar.sync 1, 128;
    div.u32 row, tile, columns;
    rem.u32 col, tile, columns;
    shl.b32 row, row, 6;
    shl.b32 col, col, 6;
    @leader cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [m2, {{col, row}}], [out];
    @leader cp.async.bulk.commit_group;
    add.u32 tile, tile, step;
    bra MULTIPLYTILE;
DONE:
    @leader cp.async.bulk.wait_group.read 0;
END:
"""
    registers = (
        ".reg .b32 full, empty, columns, tiles, blocks, tile, step, slot, phase, group, row, col, k, out;\n"
        "    .reg .pred leader;\n    .reg .f32 d<32>;"
    )
    return frame(body, maps=3, registers=registers, limits=".maxntid 256, 1, 1 .minnctapersm 1")


def hopper_gemm_shared(stages: int) -> int:
    """Bytes of dynamic shared memory."""
    return stages * SLOT + TILE
