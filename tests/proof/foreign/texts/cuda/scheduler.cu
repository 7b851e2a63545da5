// 160 threads.
// BUG 1: no wait for a free slot
// BUG 2: no barrier behind the stores
K void k(float* out, const float* in, uint32_t* ctr, int tiles, int n) {
  __shared__ int tile[2]; __shared__ uint64_t full[2], empty[2]; __shared__ float s[128]; int t = threadIdx.x;
  if (t == 0) { for (int i = 0; i < 2; i++) { mb_init(&full[i], 1); mb_init(&empty[i], 128); } } __syncthreads();
  int st = 0; uint32_t ph = 0;
  if (t >= 128) { if (t == 128) while (true) { if (BUG != 1) mb_wait(&empty[st], ph ^ 1); int x = atomicAdd(ctr, 1u); tile[st] = x; mb_arrive(&full[st]); if (x >= tiles) break; st ^= 1; if (!st) ph ^= 1; } }
  else while (true) { mb_wait(&full[st], ph); int x = tile[st]; mb_arrive(&empty[st]); if (x >= tiles) break; st ^= 1; if (!st) ph ^= 1;
    float v = 0; for (int i = 0; i < n; i++) { s[t] = in[(size_t)x*n + i]; if (BUG != 2) bar_sync<1>(128); v += s[127-t]; bar_sync<1>(128); } out[x*128+t] = v; } }
