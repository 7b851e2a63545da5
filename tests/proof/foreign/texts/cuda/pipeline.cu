// 128 threads.
// BUG 1: waits for all but two copies
// BUG 2: no sync behind the reading
#include <cuda/pipeline>
K void k(float* out, const float* in, int n) {
  __shared__ float s[2][128]; if (n < 1) return; auto p = cuda::make_pipeline(); int t = threadIdx.x; float sum = 0;
  p.producer_acquire(); cuda::memcpy_async(&s[0][t], &in[t], cuda::aligned_size_t<4>(4), p); p.producer_commit();
  for (int i = 0; i < n; i++) {
    p.producer_acquire();
    if (i + 1 < n)
      cuda::memcpy_async(&s[(i + 1) % 2][t], &in[(size_t)(i + 1) * 128 + t], cuda::aligned_size_t<4>(4), p);
    p.producer_commit(); cuda::pipeline_consumer_wait_prior<BUG == 1 ? 2 : 1>(p); __syncthreads();
    sum += s[i % 2][127 - t]; p.consumer_release(); SYNC(2); }
  out[blockIdx.x * 128 + t] = sum; }
