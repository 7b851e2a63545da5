// Where the copies begin is what the iteration before says: it is not known iterations ahead.
// pass: tma_multistage
// target: sm_90a
tile kernel @gemm(%A: tensor<256x512xbf16>, %B: tensor<256x512xbf16>, %C: tensor<256x256xf32>) attrs {threads = 128} {
  launch 2, 2, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<128x64xbf16>} : shared<128x64xbf16>
    %Bs = alloc {type_ = shared<128x64xbf16>} : shared<128x64xbf16>
    %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
    %m = mul %by, 128 : i32
    %n = mul %bx, 128 : i32
    %r, %e = for 0, 8, 1, [%z, 0] {kind = "pipelined", stages = 3} : tile<128x128xf32>, i32 (%k: i32, %c: tile<128x128xf32>, %o: i32) {
      %p = add %o, 64 : i32
      copy %A[%m, %o], %As[0, 0] {shape = (128, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[%n, %o], %Bs[0, 0] {shape = (128, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      %c1 = gemm %As[0, 0], %Bs[0, 0], %c {transpose_b = true} : tile<128x128xf32>
      yield %c1, %p
    }
    store %C[%m, %n], %r {dims = (0, 1)}
  }
}

// ----
tile kernel @gemm(%A: tensor<256x512xbf16>, %B: tensor<256x512xbf16>, %C: tensor<256x256xf32>) attrs {threads = 128} {
  launch 2, 2, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<128x64xbf16>} : shared<128x64xbf16>
    %Bs = alloc {type_ = shared<128x64xbf16>} : shared<128x64xbf16>
    %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
    %m = mul %by, 128 : i32
    %n = mul %bx, 128 : i32
    %r, %e = for 0, 8, 1, [%z, 0] {kind = "pipelined", stages = 3} : tile<128x128xf32>, i32 (%k: i32, %c: tile<128x128xf32>, %o: i32) {
      %p = add %o, 64 : i32
      copy %A[%m, %o], %As[0, 0] {shape = (128, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[%n, %o], %Bs[0, 0] {shape = (128, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      %c1 = gemm %As[0, 0], %Bs[0, 0], %c {transpose_b = true} : tile<128x128xf32>
      yield %c1, %p
    }
    store %C[%m, %n], %r {dims = (0, 1)}
  }
}
