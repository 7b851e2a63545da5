// A GEMM by tiles in shared memory: C[M,N] = A[M,K] B[K,N], f32; M, N and K are multiples of 32.
extern "C" __global__ void __launch_bounds__(256) gemm(const float* __restrict__ a, const float* __restrict__ b,
                                                       float* __restrict__ c, int m, int n, int k) {
  __shared__ float as[32][33], bs[32][33];
  int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
  int row = blockIdx.y * 32, column = blockIdx.x * 32;
  float sums[4] = {0, 0, 0, 0};
  for (int at = 0; at < k; at += 32) {
    for (int i = 0; i < 4; ++i) {
      as[ty + 8 * i][tx] = a[(row + ty + 8 * i) * k + at + tx];
      bs[ty + 8 * i][tx] = b[(at + ty + 8 * i) * n + column + tx];
    }
    __syncthreads();
    for (int j = 0; j < 32; ++j)
      for (int i = 0; i < 4; ++i) sums[i] += as[ty + 8 * i][j] * bs[j][tx];
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) c[(row + ty + 8 * i) * n + column + tx] = sums[i];
}
