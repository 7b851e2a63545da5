// 256 threads.
// BUG 1: slot given back before the product has completed (wait_group 1 and no lag)
// BUG 2: no wgmma.fence before the product
// BUG 3: expect_tx of A only
// BUG 4: consumer's phase starts at 1
// BUG 5: producer's phase starts at 0 (waits for ever)
// BUG 6: empty barrier counts 2 arrivals with one consumer
// BUG 7: no wait before the accumulators are read
// BUG 8: producer does not wait for empty slots
// BUG 9: the empty barrier of the next stage is arrived at
#include "wgmma.h"
K void k(const __grid_constant__ Map A, const __grid_constant__ Map B, float* C, int n) {
  extern __shared__ __align__(1024) unsigned char raw[];
    __shared__ __align__(1024) unsigned char a[3][8192], b[3][2048];
    __shared__ __align__(8) uint64_t full[3], empty[3];
  if (threadIdx.x == 0) { for (int i = 0; i < 3; i++) { mb_init(&full[i], 1); mb_init(&empty[i], BUG == 6 ? 2
    : 1); } fence_init(); }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) { int st = 0, ph = BUG == 5 ? 0 : 1;
      _Pragma("unroll 1") for (int i = 0; i < n; i++) {
        if (BUG != 8) mb_wait(&empty[st], ph); mb_expect(&full[st], BUG == 3 ? 8192 : 10240);
        tma_load(a[st], &A, i * 64, blockIdx.y * 64, &full[st]);
          tma_load(b[st], &B, i * 64, blockIdx.x * 16, &full[st]);
        if (++st == 3) { st = 0; ph ^= 1; } } }
  } else { float d[8] = {}; int st = 0, ph = BUG == 4 ? 1 : 0;
    _Pragma("unroll 1") for (int i = 0; i < n; i++) {
      mb_wait(&full[st], ph); if (BUG != 2) wg_fence();
      #pragma unroll
      for (int j = 0; j < 2; j++) wgmma64x16(d, desc(a[st]) + j * 2, desc(b[st]) + j * 2, 1);
      wg_commit(); if (BUG == 1) wg_wait<1>(); else if (BUG != 7) wg_wait<0>();
      if (threadIdx.x == 0) mb_arrive(&empty[BUG == 9 ? (st + 1) % 3 : st]);
      if (++st == 3) { st = 0; ph ^= 1; } }
    if (BUG == 1) wg_wait<0>();
    put(C + blockIdx.y * 64 * 16, d, 16); } }
