// 128 threads.
// BUG 1: no barrier behind the stores
// BUG 2: none behind the loads
K void k(float* out, const float* in, size_t n) {
  __shared__ float s[128]; int t = threadIdx.x; float v = 0;
  for (size_t i = blockIdx.x; i < n; i += gridDim.x) { s[t] = in[i*128+t]; SYNC(1); v += s[127-t]; SYNC(2); }
  out[t] = v; }
