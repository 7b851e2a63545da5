// 128 threads.
// BUG 1: the buffer that is read is written
K void k(float* out, float* in, int n) {
  __shared__ float s[2][128]; int t = threadIdx.x, c = 0; s[0][t] = in[t]; __syncthreads();
  for (int it = 0; it < n; it++) { float v = s[c][t], u = s[c][(t+127)&127]; bool ch = u > v; s[BUG == 1 ? c : c^1][t] = ch ? u : v; c ^= 1; if (!__syncthreads_or(ch)) break; }
  out[t] = s[c][t]; }
