// 128 threads.
// BUG 1: always the first phase
// BUG 2: no barrier
K void k(float* out, const float* in, int n) {
  __shared__ __align__(128) float s[2][1024]; __shared__ uint64_t full[2]; int t = threadIdx.x; float sum = 0;
  if (t == 0) { mb_init(&full[0], 1); mb_init(&full[1], 1); fence_init(); } __syncthreads();
  if (t == 0 && n > 0) { mb_expect(&full[0], 4096); bulk_load(s[0], in, 4096, &full[0]); }
  for (int i = 0; i < n; i++) { int b = i & 1;
    if (t == 0 && i + 1 < n) { mb_expect(&full[b^1], 4096); bulk_load(s[b^1], in + (size_t)(i+1)*1024, 4096, &full[b^1]); }
    mb_wait(&full[b], BUG == 1 ? 0 : (i >> 1) & 1);
    for (int j = 0; j < 8; j++) sum += s[b][j*128+t];
    fence_async(); SYNC(2); }
  out[blockIdx.x*128+t] = sum; }
