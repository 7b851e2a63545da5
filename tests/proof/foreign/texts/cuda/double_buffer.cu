// 256 threads.
// BUG 1: waits for all but two groups of copies
// BUG 2: no sync behind the reading
K void k(const float* a, const float* b, float* c, int M, int N, int K_) {
  __shared__ float as[2][16][16], bs[2][16][16]; int x = threadIdx.x % 16, y = threadIdx.x / 16, n = K_ / 16;
  int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x; float sum = 0; if (n < 1) return;
  cp4(&as[0][y][x], &a[row * K_ + x]); cp4(&bs[0][y][x], &b[y * N + col]); cp_commit();
  for (int t = 0; t < n; t++) {
    int at = t & 1;
    if (t + 1 < n) { cp4(&as[at ^ 1][y][x], &a[row * K_ + (t + 1) * 16 + x]);
      cp4(&bs[at ^ 1][y][x], &b[((t + 1) * 16 + y) * N + col]); }
    cp_commit(); cp_wait<BUG == 1 ? 2 : 1>(); __syncthreads();
    for (int j = 0; j < 16; j++) sum += as[at][y][j] * bs[at][j][x];
    SYNC(2); }
  c[row * N + col] = sum; }
