// Products of a warpgroup, 64 by 16, of tiles with a swizzle of 128 bytes.
#pragma once
__device__ inline uint64_t desc(const void* p) { uint64_t a = smem(p);
  return ((a & 0x3FFFF) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62); }
__device__ inline void wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ inline void wg_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N)
  : "memory"); }
__device__ inline void wgmma64x16(float (&d)[8], uint64_t a, uint64_t b, int acc) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, p, 1, 1, 0, 0;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) : "l"(a),
      "l"(b), "r"(acc)); }
__device__ inline void put(float* o, const float (&d)[8], int ld) {
  int t = threadIdx.x % 128, r = t / 32 * 16 + t % 32 / 4, c = t % 4 * 2;
  for (int j = 0; j < 2; j++) for (int h = 0; h < 2; h++) for (int e = 0; e < 2;
    e++) o[(r + h * 8) * ld + j * 8 + c + e] = d[j * 4 + h * 2 + e]; }
