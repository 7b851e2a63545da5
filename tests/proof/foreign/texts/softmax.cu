// Softmax of a row by a block of 256 threads: two reductions by shuffles and shared memory.
__device__ float over_warp(float x, bool largest) {
  for (int by = 16; by; by /= 2) {
    float y = __shfl_xor_sync(0xffffffffu, x, by);
    x = largest ? fmaxf(x, y) : x + y;
  }
  return x;
}
__device__ float over_block(float x, bool largest, float* part) {
  x = over_warp(x, largest);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  x = part[threadIdx.x % 8];
  for (int by = 4; by; by /= 2) {
    float y = __shfl_xor_sync(0xffffffffu, x, by);
    x = largest ? fmaxf(x, y) : x + y;
  }
  __syncthreads();
  return x;
}
extern "C" __global__ void __launch_bounds__(256) softmax(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float part[8];
  const float* row = x + (long long)blockIdx.x * n;
  float top = -3.0e38f, sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) top = fmaxf(top, row[i]);
  top = over_block(top, true, part);
  for (int i = threadIdx.x; i < n; i += 256) sum += __expf(row[i] - top);
  sum = over_block(sum, false, part);
  for (int i = threadIdx.x; i < n; i += 256) y[(long long)blockIdx.x * n + i] = __expf(row[i] - top) / sum;
}
