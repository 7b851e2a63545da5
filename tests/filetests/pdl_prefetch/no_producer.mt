// The same warps copy and multiply: no role could copy before the others have waited.
// pass: pdl_prefetch
// target: sm_90a
tile kernel @no_producer(%A: tensor<64x64xbf16>, %C: tensor<64x64xbf16>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    pdl_sync %A
    %x = load %A[0, 0] {shape = (64, 64), dims = (0, 1)} : tile<64x64xbf16>
    store %C[0, 0], %x {dims = (0, 1)}
    yield
  }
}

// ----
tile kernel @no_producer(%A: tensor<64x64xbf16>, %C: tensor<64x64xbf16>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    pdl_sync
    %x = load %A[0, 0] {shape = (64, 64), dims = (0, 1)} : tile<64x64xbf16>
    store %C[0, 0], %x {dims = (0, 1)}
    yield
  }
}
