// 128 threads.
// BUG 1: no barrier behind the stores
// BUG 2: none behind the loads
K void k(float* out, const float* p, const float* end) {
  __shared__ float s[128]; int t = threadIdx.x; float v = 0;
  for (; p < end; p += 128) { s[t] = p[t]; SYNC(1); v += s[127-t] * s[(t+1)&127]; SYNC(2); }
  out[t] = v; }
