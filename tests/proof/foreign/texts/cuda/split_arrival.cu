// 256 threads.
// BUG 1: no wait for the others' numbers
#include <cuda/barrier>
K void k(float* out, const float* in, int n) {
  __shared__ float s[256]; __shared__ cuda::barrier<cuda::thread_scope_block> bar; int t = threadIdx.x;
  if (t == 0) init(&bar, 256); __syncthreads();
  s[t] = in[t]; auto token = bar.arrive(); float x = in[256 + t]; if (BUG != 1) bar.wait(std::move(token));
  out[blockIdx.x * 256 + t] = x + s[255 - t]; }
