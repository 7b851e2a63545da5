// 64 threads.
// BUG 1: no barrier behind the stores
// BUG 2: none behind the loads
K void k(float* out, const float* in, int n) {
  __shared__ float a[16], b[16], c[32]; int t = threadIdx.x;
  for (int i = 0; i < n; i++) { float x = in[i*64+t]; if (t < 10) a[t] = x; else if (t < 20) { if (x > 0) b[t-10] = x; else b[t-10] = -x; } else if (t < 30) c[t-20] = x * 2; SYNC(1);
    float v = a[t % 10] + b[t % 10] + c[t % 10]; SYNC(2); out[i*64+t] = v; } }
