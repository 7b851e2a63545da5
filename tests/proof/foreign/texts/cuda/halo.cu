// 256 threads.
// BUG 1: no barrier behind the stores
// BUG 2: none behind the loads
K void k(float* out, const float* in, int n) {
  __shared__ float s[256 + 8]; int t = threadIdx.x;
  for (int b = blockIdx.x*256; b < n; b += gridDim.x*256) { int g = b + t; s[t+4] = g < n ? in[g] : 0;
    if (t < 4) { s[t] = g >= 4 ? in[g-4] : 0; s[t+260] = g + 256 < n ? in[g+256] : 0; } SYNC(1);
    float r = 0; for (int j = -4; j <= 4; j++) r += s[t+4+j]; if (g < n) out[g] = r; SYNC(2); } }
