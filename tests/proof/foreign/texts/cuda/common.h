// What the programs of this folder share. SYNC(n) is missing where a program is compiled with -DBUG=n.
#pragma once
#include <cstdint>
#ifndef BUG
#define BUG 0
#endif
#define SYNC(n) do { if (BUG != (n)) __syncthreads(); } while (0)
#define K extern "C" __global__
__device__ inline uint32_t smem(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ inline void cp16(void* d, const void* s) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
  :: "r"(smem(d)), "l"(s) : "memory"); }
__device__ inline void cp4(void* d, const void* s) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
  :: "r"(smem(d)), "l"(s) : "memory"); }
__device__ inline void cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ inline void cp_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
__device__ inline void mb_init(uint64_t* b, uint32_t n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
  :: "r"(smem(b)), "r"(n) : "memory"); }
__device__ inline void mb_arrive(uint64_t* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
  :: "r"(smem(b)) : "memory"); }
__device__ inline void mb_expect(uint64_t* b, uint32_t n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory"); }
__device__ inline void mb_wait(uint64_t* b, uint32_t p) {
  asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra "
      "DONE;\nbra LAB_WAIT;\nDONE:\n}"
    :: "r"(smem(b)), "r"(p) : "memory"); }
__device__ inline void mb_wait2(uint64_t* b, uint32_t p) {
  uint32_t ok = 0;
  while (!ok) asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 "
      "%0, 1, 0, p;\n}"
    : "=r"(ok) : "r"(smem(b)), "r"(p) : "memory"); }
__device__ inline void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void bulk_load(void* d, const void* s, uint32_t n, uint64_t* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    :: "r"(smem(d)), "l"(s), "r"(n), "r"(smem(b)) : "memory"); }
__device__ inline void bulk_store(void* d, const void* s, uint32_t n) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(d), "r"(smem(s)), "r"(n)
    : "memory"); }
__device__ inline void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> __device__ inline void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;"
  :: "n"(N) : "memory"); }
template <int N> __device__ inline void bulk_wait() { asm volatile("cp.async.bulk.wait_group %0;" :: "n"(N)
  : "memory"); }
__device__ inline void tma_load(void* d, const void* map, int x, int y, uint64_t* b) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];"
    :: "r"(smem(d)), "l"(map), "r"(x), "r"(y), "r"(smem(b)) : "memory"); }
__device__ inline void tma_store(const void* map, void* s, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" :: "l"(map),
    "r"(x), "r"(y), "r"(smem(s)) : "memory"); }
template <int ID> __device__ inline void bar_sync(int n) { asm volatile("bar.sync %0, %1;" :: "n"(ID), "r"(n)
  : "memory"); }
template <int ID> __device__ inline void bar_arrive(int n) { asm volatile("bar.arrive %0, %1;" :: "n"(ID),
  "r"(n) : "memory"); }
struct alignas(64) Map { char b[128]; };
__device__ inline float warp_sum(float v) { for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o); return v; }
__device__ inline float warp_max(float v) { for (int o = 16; o;
  o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o)); return v; }
__device__ inline float warp_sum_down(float v) { for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
  return v; }
