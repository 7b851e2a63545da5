// 160 threads.
// BUG 1: phase of the empty barrier is not flipped
// BUG 2: full barrier counts 31 arrivals
// BUG 3: consumers give the slot back before they read it
// BUG 4: producer does not wait for empty
// BUG 5: no sync behind the init
K void k(float* out, const float* in, int n) {
  __shared__ float s[3][128]; __shared__ uint64_t full[3], empty[3];
  if (threadIdx.x == 0) for (int i = 0; i < 3; i++) { mb_init(&full[i], BUG == 2 ? 31 : 32);
    mb_init(&empty[i], 128); }
  SYNC(5);
  if (threadIdx.x >= 128) { int l = threadIdx.x - 128; uint32_t st = 0, ph = 1;
    _Pragma("unroll 1") for (int i = 0; i < n; i++) {
      if (BUG != 4) mb_wait(&empty[st], ph);
      for (int j = l; j < 128; j += 32) s[st][j] = in[i * 128 + j];
      asm volatile("{.reg .b64 t; mbarrier.arrive.shared.b64 t, [%0];}" :: "r"(smem(&full[st])) : "memory");
      if (++st == 3) { st = 0; if (BUG != 1) ph ^= 1; } }
  } else { uint32_t st = 0, ph = 0; float acc = 0;
    _Pragma("unroll 1") for (int i = 0; i < n; i++) {
      mb_wait(&full[st], ph);
      if (BUG == 3) asm volatile("{.reg .b64 t; mbarrier.arrive.shared.b64 t, [%0];}" :: "r"(smem(&empty[st]))
        : "memory");
      acc += s[st][127 - threadIdx.x];
      if (BUG != 3) asm volatile("{.reg .b64 t; mbarrier.arrive.shared.b64 t, [%0];}" :: "r"(smem(&empty[st]))
        : "memory");
      out[i * 128 + threadIdx.x] = acc;
      if (++st == 3) { st = 0; ph ^= 1; } } } }
