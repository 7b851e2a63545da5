// 128 threads.
// BUG 1: half as many groups are waited for
// BUG 2: no barrier
// BUG 3: the slot behind the one that is free
K void k(float* out, const float* in, int n) {
  __shared__ __align__(16) float s[3][512]; int t = threadIdx.x; float sum = 0;
  for (int i = 0; i < 2; i++) { if (i < n) cp16(&s[i][4*t], in + (size_t)i*512 + 4*t); cp_commit(); }
  for (int i = 0; i < n; i++) {
    cp_wait<BUG == 1 ? 2 : 1>(); SYNC(2);
    int j = i + 2; if (j < n) cp16(&s[(BUG==3? j+1 : j) % 3][4*t], in + (size_t)j*512 + 4*t); cp_commit();
    for (int q = 0; q < 4; q++) sum += s[i % 3][(t * 4 + q + 8) % 512];
  }
  out[blockIdx.x*128+t] = sum; }
