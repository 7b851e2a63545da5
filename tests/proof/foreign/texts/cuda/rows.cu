// 256 threads.
// BUG 1: no sync before the sums of warps are written again
// BUG 2: no sync before they are read
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ float sum_of_block(float v, float* sums) {
  cg::thread_block block = cg::this_thread_block(); auto warp = cg::tiled_partition<32>(block);
  for (int o = 16; o; o >>= 1) v += warp.shfl_xor(v, o);
  if (BUG != 1) block.sync(); if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = v; if (BUG != 2) block.sync();
  v = 0; for (int i = 0; i < 8; i++) v += sums[i]; return v; }
K void k(float* out, const float* in, int rows, int n) {
  __shared__ float sums[8];
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* a = in + (size_t)row * n; float v = 0; for (int i = threadIdx.x; i < n; i += 256) v += a[i];
    float mean = sum_of_block(v, sums) / n; v = 0;
    for (int i = threadIdx.x; i < n; i += 256) v += (a[i] - mean) * (a[i] - mean);
    float scale = rsqrtf(sum_of_block(v, sums) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += 256) out[(size_t)row * n + i] = (a[i] - mean) * scale; } }
