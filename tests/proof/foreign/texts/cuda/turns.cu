// 384 threads.
// BUG 1: one consumer gives no slot back in odd rounds
// BUG 2: order barrier is missing and the scratch is shared
K void k(const __grid_constant__ Map A, float* C, int n) {
  __shared__ __align__(1024) unsigned char a[2][4096]; __shared__ float scratch[128];
    __shared__ __align__(8) uint64_t full[2], empty[2]; int wg = threadIdx.x / 128, t = threadIdx.x % 128;
  if (threadIdx.x == 0) { for (int i = 0; i < 2; i++) { mb_init(full + i, 1); mb_init(empty + i, 256); }
    fence_init(); } __syncthreads();
  if (wg == 0) { if (t == 0) _Pragma("unroll 1") for (int i = 0; i < n; i++) {
    mb_wait(empty + (i & 1), ((i >> 1) & 1) ^ 1); mb_expect(full + (i & 1), 4096);
    tma_load(a[i & 1], &A, i * 32, 0, full + (i & 1)); }
  } else { float acc = 0; if (wg == 2 && n > 0) asm volatile("bar.arrive 1, 256;" ::: "memory");
    _Pragma("unroll 1") for (int i = 0; i < n; i++) { mb_wait(full + (i & 1), (i >> 1) & 1);
      float v = *(float*)(a[i & 1] + t * 4 + (wg - 1) * 2048);
      fence_async(); if (BUG == 1) { if (!(wg == 2 && i % 2)) mb_arrive(empty + (i & 1)); }
        else mb_arrive(empty + (i & 1));
      if (BUG != 2) { if (wg == 1) asm volatile("bar.sync 1, 256;" ::: "memory");
        else asm volatile("bar.sync 2, 256;" ::: "memory"); }
      scratch[t] = v; asm volatile("bar.sync %0, 128;" :: "r"(wg + 2) : "memory"); acc += scratch[127 - t];
        asm volatile("bar.sync %0, 128;" :: "r"(wg + 2) : "memory");
      if (BUG != 2) { if (wg == 1) asm volatile("bar.arrive 2, 256;" ::: "memory");
        else if (i + 1 < n) asm volatile("bar.arrive 1, 256;" ::: "memory"); } }
    C[threadIdx.x - 128] = acc; } }
