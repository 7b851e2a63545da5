// Nothing here synchronises explicitly: slices that gemms read are versions, for wgmma knows matrices only; %T, which is
// only copied, stays.
// pass: detect_multibuffers
// target: sm_90a
tile kernel @multiplied(%A: tensor<64x512xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<2x64x64xbf16>} : shared<2x64x64xbf16>
    %T = alloc {type_ = shared<2x64x64xbf16>} : shared<2x64x64xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    copy %A[0, 0], %S[0, 0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (none, 0, 1)}
    copy %A[0, 64], %S[1, 0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (none, 0, 1)}
    copy %A[0, 0], %T[1, 0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (none, 0, 1)}
    %c = gemm %S[0, 0, 0], %S[1, 0, 0], %z {a_dims = (none, 0, 1), b_dims = (none, 0, 1)} : tile<64x64xf32>
    store %C[0, 0], %c {dims = (0, 1)}
    yield
  }
}

// ----
tile kernel @multiplied(%A: tensor<64x512xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<2 versions x 64x64xbf16>} : shared<2 versions x 64x64xbf16>
    %T = alloc {type_ = shared<2x64x64xbf16>} : shared<2x64x64xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    copy %A[0, 0], %S[0, 0], dst_slot = 0 {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %A[0, 64], %S[0, 0], dst_slot = 1 {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %A[0, 0], %T[1, 0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (none, 0, 1)}
    %c = gemm %S[0, 0], %S[0, 0], %z, a_slot = 0, b_slot = 1 : tile<64x64xf32>
    store %C[0, 0], %c {dims = (0, 1)}
    yield
  }
}
