// 256 threads.
// BUG 1: no sync behind the zeroing
// BUG 2: no sync before the flush
// BUG 3: increments are not atomic
K void k(unsigned* out, const unsigned char* in, int n) {
  __shared__ unsigned h[256]; h[threadIdx.x] = 0; SYNC(1);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    if (BUG == 3) h[in[i]]++; else atomicAdd(&h[in[i]], 1u); }
  SYNC(2); atomicAdd(&out[threadIdx.x], h[threadIdx.x]); }
