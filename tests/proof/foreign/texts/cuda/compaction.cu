// 256 threads.
// BUG 1: base read before thread 0 wrote it
// BUG 2: warps' counts summed without a sync
K void k(int* out, int* total, const int* in, int n) {
  __shared__ int wc[8], base; int t = threadIdx.x, l = t & 31, w = t >> 5, i = blockIdx.x * 256 + t;
    int v = i < n ? in[i] : 0; bool keep = i < n && v > 0;
  unsigned m = __ballot_sync(~0u, keep); if (l == 0) wc[w] = __popc(m); SYNC(2);
  if (t == 0) { int s = 0; for (int j = 0; j < 8; j++) { int c = wc[j]; wc[j] = s; s += c; }
    base = atomicAdd(total, s); }
  SYNC(1); if (keep) out[base + wc[w] + __popc(m & ((1u << l) - 1))] = v; }
