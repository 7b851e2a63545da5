// 160 threads.
// BUG 1: the mbarriers of free slots count 3 of 4 warps
// BUG 2: no wait for the copy
K void k(float* out, const float* in, int n) {
  __shared__ __align__(128) float s[4][1024]; __shared__ uint64_t full[4], free[4];
  int t = threadIdx.x, at = 0; uint32_t p = 0;
  if (t == 0) { for (int i = 0; i < 4; i++) { mb_init(&full[i], 1); mb_init(&free[i], BUG == 1 ? 3 : 4); }
    fence_init(); } __syncthreads();
  if (t >= 128) { if (t == 128) for (int i = 0; i < n; i++) {
    mb_wait(&free[at], p ^ 1); mb_expect(&full[at], 4096); bulk_load(s[at], in + (size_t)i * 1024, 4096, &full[at]);
    if (++at == 4) { at = 0; p ^= 1; } } }
  else { float sum = 0;
    for (int i = 0; i < n; i++) {
      if (BUG != 2) mb_wait(&full[at], p); for (int j = 0; j < 8; j++) sum += s[at][j * 128 + t];
      fence_async(); __syncwarp(); if (t % 32 == 0) mb_arrive(&free[at]); if (++at == 4) { at = 0; p ^= 1; } }
    out[blockIdx.x * 128 + t] = sum; } }
