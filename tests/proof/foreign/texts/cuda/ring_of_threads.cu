// 256 threads.
// BUG 1: the mbarriers of free slots count half of the readers
// BUG 2: no wait for a free slot
K void k(float* out, const float* in, int n) {
  __shared__ float s[3][128]; __shared__ uint64_t full[3], free[3]; int t = threadIdx.x, at = 0; uint32_t p = 0;
  if (t == 0) for (int i = 0; i < 3; i++) { mb_init(&full[i], 128); mb_init(&free[i], BUG == 1 ? 64 : 128); }
  __syncthreads();
  if (t < 128) for (int i = 0; i < n; i++) {
    if (BUG != 2) mb_wait(&free[at], p ^ 1); s[at][t] = in[(size_t)i * 128 + t]; mb_arrive(&full[at]);
    if (++at == 3) { at = 0; p ^= 1; } }
  else { t -= 128; float sum = 0;
    for (int i = 0; i < n; i++) {
      mb_wait(&full[at], p); sum += s[at][127 - t]; mb_arrive(&free[at]); if (++at == 3) { at = 0; p ^= 1; } }
    out[blockIdx.x * 128 + t] = sum; } }
