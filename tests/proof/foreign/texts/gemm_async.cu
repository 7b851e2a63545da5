// A GEMM with tensor cores: tiles of 64 x 64 x 32 in a ring of three stages filled by cp.async, f16 to f32; M, N are
// multiples of 64, K of 32. A is row-major, B is given as N x K.
typedef unsigned short half_bits;
__device__ unsigned shared_address(const void* at) { return (unsigned)__cvta_generic_to_shared(at); }
__device__ void copy(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ void matrices(unsigned (&to)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}
__device__ void product(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
extern "C" __global__ void __launch_bounds__(128) gemm_async(const half_bits* __restrict__ a,
                                                             const half_bits* __restrict__ b, float* __restrict__ c,
                                                             int n, int k) {
  __shared__ __align__(128) half_bits as[3][64][40], bs[3][64][40];
  int t = threadIdx.x, lane = t % 32, warp = t / 32, row = blockIdx.y * 64, column = blockIdx.x * 64, steps = k / 32;
  float sums[8][4] = {};
  auto fetch = [&](int step) {
    if (step < steps) {
      int slot = step % 3;
      for (int i = 0; i < 2; ++i) {
        int r = t / 4 + 32 * i, q = t % 4 * 8;
        copy(shared_address(&as[slot][r][q]), a + (long long)(row + r) * k + step * 32 + q);
        copy(shared_address(&bs[slot][r][q]), b + (long long)(column + r) * k + step * 32 + q);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0);
  fetch(1);
  for (int step = 0; step < steps; ++step) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    fetch(step + 2);
    int slot = step % 3;
    for (int kk = 0; kk < 32; kk += 16) {
      unsigned x[4];
      matrices(x, shared_address(&as[slot][warp * 16 + lane % 16][kk + lane / 16 * 8]));
      for (int j = 0; j < 8; j += 2) {
        unsigned y[4];
        matrices(y, shared_address(&bs[slot][j * 8 + lane / 16 * 8 + lane % 8][kk + lane / 8 % 2 * 8]));
        product(sums[j], x, y[0], y[1]);
        product(sums[j + 1], x, y[2], y[3]);
      }
    }
  }
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < 4; ++i)
      c[(long long)(row + warp * 16 + lane / 4 + i / 2 * 8) * n + column + j * 8 + lane % 4 * 2 + i % 2] = sums[j][i];
}
