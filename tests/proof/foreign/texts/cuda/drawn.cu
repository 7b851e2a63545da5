// 256 threads.
// BUG 1: no barrier behind the tile's number
// BUG 2: none behind the sums
__device__ uint32_t next;
K void k(float* out, const float* in, uint32_t* ctr, int tiles, int n) {
  __shared__ int tile; __shared__ float w[8]; int t = threadIdx.x;
  while (true) { if (t == 0) tile = atomicAdd(ctr, 1u); SYNC(1); int me = tile; if (me >= tiles) break;
    float v = 0; for (int i = t; i < n; i += 256) v += in[(size_t)me*n+i]; v = warp_sum(v); if ((t&31)==0) w[t>>5] = v; SYNC(2);
    if (t == 0) { float r = 0; for (int i = 0; i < 8; i++) r += w[i]; out[me] = r; } SYNC(3); } }
