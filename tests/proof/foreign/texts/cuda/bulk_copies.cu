// 128 threads.
// BUG 1: a tile is loaded into the buffer while its store may read it
// BUG 2: no fence between the reading and writing in place and the store
// BUG 3: try_wait by one thread only, without a sync for the others
K void k(float* out, const float* in, int n) {
  __shared__ __align__(128) float s[256]; __shared__ __align__(8) uint64_t bar; int t = threadIdx.x;
  if (t == 0) { mb_init(&bar, 1); fence_init(); } __syncthreads(); int ph = 0;
  for (int i = blockIdx.x; i < n; i += gridDim.x) {
    if (t == 0) { mb_expect(&bar, 1024); bulk_load(s, in + i * 256, 1024, &bar); }
    if (BUG != 3 || t == 0) mb_wait(&bar, ph); ph ^= 1;
    s[t] *= 2; s[t + 128] *= 2;
    if (BUG != 2) fence_async(); __syncthreads();
    if (t == 0) { bulk_store(out + i * 256, s, 1024); bulk_commit(); if (BUG != 1) bulk_wait_read<0>(); } } }
