// 256 threads.
// BUG 1: the numbers are written again without a wait for those who read them
// BUG 2: the barrier counts half of the threads
#include <cuda/barrier>
K void k(float* out, const float* in, int n) {
  __shared__ float s[256]; __shared__ cuda::barrier<cuda::thread_scope_block> bar; int t = threadIdx.x;
  if (t == 0) init(&bar, BUG == 2 ? 128 : 256); __syncthreads(); float sum = 0;
  for (int i = 0; i < n; i++) {
    s[t] = in[(size_t)i * 256 + t]; bar.arrive_and_wait();
    sum += s[255 - t]; if (BUG != 1) bar.arrive_and_wait(); }
  out[blockIdx.x * 256 + t] = sum; }
