// 128 threads.
// BUG 1: no proxy fence before the store
// BUG 2: wait_group.read 2 of two buffers
// BUG 3: the fence is by the issuing thread only, behind the sync
// BUG 4: no sync between the wait and the writes of others
// BUG 5: the block ends without a wait
K void k(float* out, const float* in, int n) {
  __shared__ __align__(128) float s[2][256]; int t = threadIdx.x;
  _Pragma("unroll 1") for (int i = 0; i < n; i++) {
    if (t == 0) bulk_wait_read<BUG == 2 ? 2 : 1>();
    SYNC(4);
    float* b = s[i & 1]; b[t] = in[i * 256 + t] * 2; b[t + 128] = in[i * 256 + 128 + t] * 2;
    if (BUG != 1 && BUG != 3) fence_async();
    __syncthreads();
    if (t == 0) { if (BUG == 3) fence_async(); bulk_store(out + i * 256, b, 1024); bulk_commit(); } }
  if (BUG != 5) if (t == 0) bulk_wait_read<0>(); }
