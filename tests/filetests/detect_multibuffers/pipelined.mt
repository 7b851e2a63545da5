// A pipelined loop writes the buffer: it makes versions of its own, and the buffer stays as it is.
// pass: detect_multibuffers
// target: sm_90a
tile kernel @pipelined(%A: tensor<64x512xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<2x64x64xbf16>} : shared<2x64x64xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %r = for 0, %n, 1, [%z] {kind = "pipelined", stages = 2} (%k: i32, %c: tile<64x64xf32>) {
      copy %A[0, %k], %S[0, 0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (none, 0, 1)}
      copy %A[0, %k], %S[1, 0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (none, 0, 1)}
      %c1 = gemm %S[0, 0, 0], %S[1, 0, 0], %c {a_dims = (none, 0, 1), b_dims = (none, 0, 1)} : tile<64x64xf32>
      yield %c1
    }
    store %C[0, 0], %r {dims = (0, 1)}
    yield
  }
}

// ----
tile kernel @pipelined(%A: tensor<64x512xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<2x64x64xbf16>} : shared<2x64x64xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %r = for 0, %n, 1, [%z] {kind = "pipelined", stages = 2} : tile<64x64xf32> (%k: i32, %c: tile<64x64xf32>) {
      copy %A[0, %k], %S[0, 0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (none, 0, 1)}
      copy %A[0, %k], %S[1, 0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (none, 0, 1)}
      %c1 = gemm %S[0, 0, 0], %S[1, 0, 0], %c {a_dims = (none, 0, 1), b_dims = (none, 0, 1)} : tile<64x64xf32>
      yield %c1
    }
    store %C[0, 0], %r {dims = (0, 1)}
    yield
  }
}
