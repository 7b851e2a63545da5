"""Instructions as CUTLASS, DeepGEMM, FlashAttention, ThunderKittens, Triton and nvcc write them: all are decoded, in
every spelling; what is not executed is refused by name, in the line where it stands."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.runtime.sim import SimulationError, TensorMap, run_ptx

FRAME = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .align 64 .b8 tmap[128]) .maxntid 128, 1, 1
{{
    .reg .pred %p<4>;
    .reg .b16 %rs<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    .reg .f32 %f<6>;
    .reg .f64 %fd<4>;
    .reg .b128 %rq<2>;
    bra END;
    {line}
END:
    ret;
}}
"""
WRITTEN = """
mbarrier.init.shared::cta.b64 [%r1], 1;
mbarrier.init.shared.b64 [%r1], %r2;
mbarrier.inval.shared::cta.b64 [%r1];
mbarrier.arrive.shared.b64 %rd1, [%r1];
mbarrier.arrive.shared::cta.b64 _, [%r1], 1;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];
mbarrier.arrive.release.cta.shared::cta.b64 %rd1, [%r1], %r2;
mbarrier.arrive.noComplete.shared.b64 %rd1, [%r1], 1;
mbarrier.arrive_drop.shared.b64 %rd1, [%r1];
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;
mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%r1], %r2;
mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd1, [%r1], %r2;
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], %r2;
mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64 [%r1], %r2;
mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], %r2;
mbarrier.test_wait.shared.b64 %p1, [%r1], %rd1;
mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], %r2;
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2, 0x989680;
mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r1], %r2;
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], %r2, %r3;
mbarrier.try_wait.shared::cta.b64 %p1, [%r1], %rd1;
mbarrier.pending_count.b64 %r1, %rd1;
cp.async.mbarrier.arrive.shared::cta.b64 [%r1];
cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];
cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];
cp.async.ca.shared.global [%r1], [%rd1], 4;
cp.async.ca.shared.global [%r1], [%rd1], 8, %r2;
cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;
cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;
cp.async.cg.shared.global.L2::cache_hint [%r1], [%rd1], 16, %rd2;
cp.async.cg.shared::cta.global.L2::256B [%r1], [%rd1], 16, %r2;
cp.async.cg.shared.global.L2::128B [%r1 + 16], [%rd1 + 32], 16, %p1;
cp.async.commit_group;
cp.async.wait_group 2;
cp.async.wait_all;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], [%rd1], %r2, [%r3], %rd2;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd1], %r2, [%r3], %rs1;
cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r2], %r3, [%r4];
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;
cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd1], [%r1], %r2, %rd2;
cp.async.bulk.prefetch.L2.global [%rd1], %r2;
cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {%r1, %r2}];
cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%rd1, {%r1, %r2, %r3}];
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%r1], [%rd1, {%r1, %r2, %r3, %r4, %r5}], [%r4], %rs1, %rd2;
cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r1}], [%r2];
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%rd1, {%r1, %r2}], [%r3], %rd2;
cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {%r1, %r2}], [%r3];
cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group.L2::cache_hint [%rd1, {%r1, %r2}], [%r3], %rd2;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], %r2;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%rd1], [%r1], %r2;
cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r1], [%r2], %r3, [%r4];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
cp.async.bulk.wait_group.read 1;
fence.proxy.async;
fence.proxy.async.global;
fence.proxy.async.shared::cta;
fence.proxy.async.shared::cluster;
fence.proxy.alias;
fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;
fence.proxy.tensormap::generic.release.gpu;
fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
fence.mbarrier_init.release.cluster;
fence.acq_rel.cta;
fence.acq_rel.cluster;
fence.acq_rel.gpu;
fence.sc.gpu;
fence.acquire.sync_restrict::shared::cluster.cluster;
fence.release.sync_restrict::shared::cta.cluster;
membar.gl;
membar.cta;
membar.sys;
barrier.cluster.arrive.aligned;
barrier.cluster.arrive.relaxed.aligned;
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.aligned;
barrier.cluster.wait.acquire.aligned;
barrier.sync 1, 128;
barrier.sync.aligned 1, 128;
barrier.cta.sync.aligned %r1, 128;
barrier.arrive 1, 128;
barrier.cta.arrive.aligned 1, 128;
bar.sync 0;
bar.cta.sync 0;
bar.arrive 1, 256;
bar.warp.sync 0xffffffff;
bar.red.popc.u32 %r1, 0, %p1;
barrier.cta.red.or.aligned.pred %p2, 0, %p1;
wgmma.fence.sync.aligned;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
setmaxnreg.inc.sync.aligned.u32 232;
setmaxnreg.dec.sync.aligned.u32 40;
elect.sync %r1|%p1, 0xffffffff;
elect.sync _|%p1, 0xffffffff;
mapa.shared::cluster.u32 %r1, %r2, %r3;
mapa.u64 %rd1, %rd2, %r3;
mapa.shared::cluster.u64 %rd1, %rd2, %r3;
getctarank.shared::cluster.u32 %r1, %r2;
isspacep.shared::cluster %p1, %rd1;
isspacep.shared::cta %p1, %rd1;
isspacep.shared %p1, %rd1;
isspacep.global %p1, %rd1;
cvta.to.shared.u64 %rd1, %rd2;
cvta.shared::cta.u64 %rd1, %rd2;
cvta.to.shared.u32 %r1, %r2;
cvta.to.const.u64 %rd1, %rd2;
st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%r1], {%f1, %f2, %f3, %f4}, [%r3];
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, [%r3];
ld.shared::cluster.f32 %f1, [%r1];
ld.shared::cluster.v4.u32 {%r1, %r2, %r3, %r4}, [%r5];
st.shared::cluster.u32 [%r1], %r2;
ld.acquire.gpu.global.u32 %r1, [%rd1];
ld.acquire.cluster.shared::cluster.u32 %r1, [%r2];
ld.relaxed.gpu.global.u32 %r1, [%rd1];
st.release.gpu.global.u32 [%rd1], %r1;
st.release.sys.global.u32 [%rd1], %r1;
st.relaxed.gpu.global.u32 [%rd1], %r1;
ld.volatile.global.u32 %r1, [%rd1];
ld.global.nc.L1::no_allocate.L2::256B.v4.s32 {%r1, %r2, %r3, %r4}, [%rd1];
ld.global.nc.L2::128B.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
ld.global.L1::evict_last.L2::cache_hint.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1], %rd2;
ld.global.cg.u32 %r1, [%rd1];
ld.global.cv.u32 %r1, [%rd1];
st.global.L1::no_allocate.v4.s32 [%rd1], {%r1, %r2, %r3, %r4};
st.global.cs.v2.f32 [%rd1], {%f1, %f2};
st.global.wt.u32 [%rd1], %r1;
red.global.add.f32 [%rd1], %f1;
red.release.gpu.global.add.s32 [%rd1], %r1;
red.relaxed.gpu.global.add.s32 [%rd1], %r1;
red.global.add.noftz.bf16x2 [%rd1], %r1;
red.global.add.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};
red.global.gpu.relaxed.add.v2.f32 [%rd1], {%f1, %f2};
atom.global.add.u32 %r1, [%rd1], %r2;
atom.acquire.gpu.global.add.u32 %r1, [%rd1], %r2;
atom.add.release.gpu.global.u32 %r1, [%rd1], %r2;
atom.global.cas.b32 %r1, [%rd1], %r2, %r3;
atom.shared.add.u32 %r1, [%r2], %r3;
atom.shared::cluster.add.u32 %r1, [%r2], %r3;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r1, %r2}, [%r5];
ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%r1, %r2, %r3, %r4}, [%r5];
stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r5], {%r1, %r2, %r3, %r4};
stmatrix.sync.aligned.x4.m8n8.shared.b16 [%r5], {%r1, %r2, %r3, %r4};
stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r5], {%r1, %r2, %r3, %r4};
movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};
mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r1, %r2, %r3, %r4};
mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1, %r2}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r1, %r2};
mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1, %fd2}, {%fd1}, {%fd2}, {%fd1, %fd2};
shfl.sync.idx.b32 %r1, %r2, 0, 31, 0xffffffff;
shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1;
vote.sync.ballot.b32 %r1, %p1, 0xffffffff;
vote.sync.any.pred %p1, %p2, 0xffffffff;
match.any.sync.b32 %r1, %r2, 0xffffffff;
redux.sync.max.s32 %r1, %r2, 0xffffffff;
activemask.b32 %r1;
prefetch.tensormap [%rd1];
prefetch.param.tensormap [tmap];
prefetch.global.L2::evict_last [%rd1];
prefetch.global.L2 [%rd1];
createpolicy.fractional.L2::evict_first.b64 %rd1, 1.0;
griddepcontrol.wait;
griddepcontrol.launch_dependents;
nanosleep.u32 20;
mov.u32 %r1, %cluster_ctarank;
mov.u32 %r1, %cluster_nctarank;
mov.u32 %r1, %cluster_ctaid.x;
mov.u32 %r1, %cluster_nctaid.x;
mov.u32 %r1, %clusterid.x;
mov.u32 %r1, %nclusterid.x;
mov.pred %p1, %is_explicit_cluster;
mov.u32 %r1, %smid;
mov.u32 %r1, %nsmid;
mov.u32 %r1, %warpid;
mov.u32 %r1, %lanemask_lt;
mov.u64 %rd1, %clock64;
mov.u32 %r1, %clock;
mov.u64 %rd1, %globaltimer;
mov.u32 %r1, %dynamic_smem_size;
mov.u32 %r1, %total_smem_size;
mov.u32 %r1, %aggr_smem_size;
mov.u32 %r1, %gridid;
ex2.approx.ftz.f32 %f1, %f2;
ex2.approx.ftz.bf16x2 %r1, %r2;
lg2.approx.ftz.f32 %f1, %f2;
tanh.approx.f32 %f1, %f2;
rcp.approx.ftz.f32 %f1, %f2;
cvt.rn.bf16x2.f32 %r1, %f1, %f2;
cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2;
cvt.rn.f16x2.e4m3x2 %r1, %rs1;
cvt.rna.tf32.f32 %r1, %f1;
cvt.rn.relu.bf16x2.f32 %r1, %f1, %f2;
fma.rn.bf16x2 %r1, %r2, %r3, %r4;
max.ftz.f32 %f1, %f2, %f3;
prmt.b32 %r1, %r2, %r3, 0x7632;
lop3.b32 %r1, %r2, %r3, %r4, 0xea;
shf.l.wrap.b32 %r1, %r2, %r3, %r4;
bfe.u32 %r1, %r2, 4, 8;
tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r1], %rd1;
tensormap.replace.tile.global_dim.global.b1024.b32 [%rd1], 1, %r1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r1], 128;
discard.global.L2 [%rd1], 128;
applypriority.global.L2::evict_normal [%rd1], 128;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %p1, 1, 1, 0, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, %rd2, %p1, 1, 1, 1;
wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1, %r2}, %rd1, %rd2, 1, 1, 1, 0, 0;
wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %p1, 1, 1;
wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1, %r2, %r3, %r4}, %rd1, %rd2, %p1;
wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8.satfinite {%r1, %r2, %r3, %r4}, %rd1, %rd2, %p1;
tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], %r2;
tcgen05.alloc.cta_group::1.sync.aligned.b32 [%rd1], 512;
tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r1, %r2;
tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, {%r3, %r4, %r5, %r6}, %p1;
tcgen05.mma.cta_group::2.kind::tf32 [%r1], [%r3], %rd2, %r2, {%r3, %r4, %r5, %r6, %r3, %r4, %r5, %r6}, %p1;
tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, {%r3, %r4, %r5, %r6}, %p1, 4;
tcgen05.mma.cta_group::1.kind::f8f6f4 [%r1], %rd1, %rd2, %r2, %p1;
tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;
tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.block32 [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;
tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;
tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;
tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X [%r1], %rd1, %rd2, %r2, [%r3 + 4], [%r4 + 8], %p1;
tcgen05.cp.cta_group::1.32x128b.warpx4 [%r1], %rd1;
tcgen05.cp.cta_group::2.64x128b.warpx2::02_13 [%r1], %rd1;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%rd1];
tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r1], %rs1;
tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r1, %r2, %r3, %r4}, [%r5];
tcgen05.ld.sync.aligned.16x64b.x4.pack::16b.b32 {%r1, %r2, %r3, %r4}, [%r5];
tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%r1, %r2}, [%r5], 2;
tcgen05.ld.sync.aligned.32x32b.x1.b32 %r1, [%r5];
tcgen05.st.sync.aligned.16x128b.x1.unpack::16b.b32 [%r5], {%r1, %r2};
tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%r5], 16, {%r1};
cp.async.bulk.tensor.1d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], [%rd1, {%r2}], [%r3], %rd2;
cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%r1], [%rd1, {%r2, %r3}], [%r4], %rs1, %rd2;
cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], [%rd1, {%r2, %r3, %r4, %r5, %r6}], [%r7], %rd2;
cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {%r2, %r3, %r4, %r5, %r6}], [%r1];
cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%rd1, {%r2, %r3, %r4, %r5, %r6}];
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%r1], [%r2];
clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128 [%rd1], [%rd2];
ld.shared.b128 %rq1, [%r1];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %rq1;
@%p1 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1, %r2, %r3, _}, %rq1;
clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 %r1, %rq1;
mov.b128 %rq1, {%rd1, %rd2};
fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;
fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
"""  # noqa: E501
REFUSED = """
cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r1, %r2, %r3, %r4}], [%r4], {%rs1, %rs2};
atom.global.cas.b128 %rq1, [%rd1], %rq1, %rq1;
mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r1, %r2, %r3, %r4};
szext.clamp.u32 %r1, %r2, 5;
multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%rd1];
multimem.red.release.sys.global.add.u32 [%rd1], %r1;
wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r1, %r2, %r3, %r4}, %rd1, %rd2, %p1;
wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %r1, 0, %p1, 1, 1, 0, 0;
mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6, %r1, %r2}, {%f1, %f2, %f3, %f4}, %r1, 0x0;
tcgen05.mma.sp.cta_group::1.kind::f16 [%r1], %rd1, %rd2, [%r3], %r2, %p1;
tcgen05.mma.ws.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;
tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [%r1], %rd1, %rd2, %r2, %p1;
tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::4X [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;
tcgen05.cp.cta_group::1.128x128b.b8x16.b4x16_p64 [%r1], %rd1;
tcgen05.shift.cta_group::1.down [%r1];
tcgen05.cp.cta_group::1.4x256b [%r1], %rd1;
"""  # noqa: E501


def decode(line: str) -> None:
    """The instruction is decoded, but never reached: its registers hold nothing that it could use."""
    tensor = TensorMap(np.zeros((16, 16), np.float32), (16, 16))
    run_ptx(FRAME.format(line=line), "k", (1,), (32,), [np.zeros(4, np.uint32), tensor])


@pytest.mark.parametrize("line", WRITTEN.strip().splitlines())
def test_decoded(line: str) -> None:
    decode(line)


@pytest.mark.parametrize("line", REFUSED.strip().splitlines())
def test_refused(line: str) -> None:
    with pytest.raises(SimulationError, match="PTX line 14"):
        decode(line)


def test_a_wait_as_cutlass_writes_it() -> None:
    """Labels and predicates of a block are the block's own, so that the same text may stand there twice."""
    wait = """{{
        .reg .pred P1;
        LAB_WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], {parity};
        @P1 bra DONE;
        bra LAB_WAIT;
        DONE:
    }}
"""
    text = (
        """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .shared .align 8 .b8 bar[8];
    .reg .b32 %r<8>;
    .reg .pred %p<2>;
    mov.u32 %r1, bar;
    mov.u32 %r2, %tid.x;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r1], 64;
    bar.sync 0;
    mbarrier.arrive.shared::cta.b64 _, [%r1];
"""
        + wait.format(parity=0)
        + "    mbarrier.arrive.shared::cta.b64 _, [%r1];\n"
        + wait.format(parity=1)
        + "    ret;\n}\n"
    )
    report = run_ptx(text, "k", (1,), (64,), [np.zeros(4, np.uint32)])
    assert not report.findings, report.findings
