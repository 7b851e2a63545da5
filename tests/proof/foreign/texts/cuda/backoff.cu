// 256 threads.
// BUG 1: no wait for the numbers
// BUG 2: the second wait is for the phase before
__device__ inline bool tries(uint64_t* b, uint32_t p) {
  uint32_t ok;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
    : "=r"(ok) : "r"(smem(b)), "r"(p) : "memory");
  return ok; }
K void k(float* out, const float* in, int n) {
  __shared__ float s[256]; __shared__ uint64_t bar; int t = threadIdx.x; uint32_t p = 0; float sum = 0;
  if (t == 0) mb_init(&bar, 256); __syncthreads();
  for (int i = 0; i < n; i++) {
    s[t] = in[(size_t)i * 256 + t]; mb_arrive(&bar);
    if (BUG != 1) while (!tries(&bar, p)) __nanosleep(64); p ^= 1;
    sum += s[255 - t]; mb_arrive(&bar); int ns = 8;
    while (!tries(&bar, p)) { __nanosleep(ns); if (ns < 256) ns *= 2; } if (BUG != 2) p ^= 1; }
  out[blockIdx.x * 256 + t] = sum; }
