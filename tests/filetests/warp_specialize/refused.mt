// Rows of 36 bytes are not whole 16-byte units, which TMA wants: nothing changes, software pipelining has it.
// pass: warp_specialize
// target: sm_90a
tile kernel @gemm(%A: tensor<256x18xbf16>, %B: tensor<256x18xbf16>, %C: tensor<256x256xf32>) attrs {threads = 128} {
  launch 2, 2, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<128x64xbf16>} : shared<128x64xbf16>
    %Bs = alloc {type_ = shared<128x64xbf16>} : shared<128x64xbf16>
    %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
    %m = mul %by, 128 : i32
    %n = mul %bx, 128 : i32
    %r = for 0, 8, 1, [%z] {kind = "pipelined", stages = 3} (%k: i32, %c: tile<128x128xf32>) {
      %o = mul %k, 64 : i32
      copy %A[%m, %o], %As[0, 0] {shape = (128, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[%n, %o], %Bs[0, 0] {shape = (128, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      %c1 = gemm %As[0, 0], %Bs[0, 0], %c {transpose_b = true} : tile<128x128xf32>
      yield %c1
    }
    store %C[%m, %n], %r {dims = (0, 1)}
  }
}

// ----
tile kernel @gemm(%A: tensor<256x18xbf16>, %B: tensor<256x18xbf16>, %C: tensor<256x256xf32>) attrs {threads = 128} {
  launch 2, 2, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<128x64xbf16>} : shared<128x64xbf16>
    %Bs = alloc {type_ = shared<128x64xbf16>} : shared<128x64xbf16>
    %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
    %m = mul %by, 128 : i32
    %n = mul %bx, 128 : i32
    %r = for 0, 8, 1, [%z] {kind = "pipelined", stages = 3} : tile<128x128xf32> (%k: i32, %c: tile<128x128xf32>) {
      %o = mul %k, 64 : i32
      copy %A[%m, %o], %As[0, 0] {shape = (128, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[%n, %o], %Bs[0, 0] {shape = (128, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      %c1 = gemm %As[0, 0], %Bs[0, 0], %c {transpose_b = true} : tile<128x128xf32>
      yield %c1
    }
    store %C[%m, %n], %r {dims = (0, 1)}
  }
}
