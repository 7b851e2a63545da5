// A target without wgmma: gemms are what they were.
// pass: lower_manual_wgmma
// target: sm_80
tile kernel @no_wgmma(%A: tensor<64x64xbf16>, %C: tensor<64x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %S[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %c = gemm %S[0, 0], %S[0, 0], %z : tile<64x64xf32>
    store %C[0, 0], %c {dims = (0, 1)}
    yield
  }
}

// ----
tile kernel @no_wgmma(%A: tensor<64x64xbf16>, %C: tensor<64x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %S[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %c = gemm %S[0, 0], %S[0, 0], %z : tile<64x64xf32>
    store %C[0, 0], %c {dims = (0, 1)}
    yield
  }
}
