// Copies through registers go one iteration ahead.
// pass: deepen_stages
// target: gfx942
tile kernel @matmul(%A: tensor<1024x1024xf16>, %B: tensor<1024x1024xf16>, %C: tensor<1024x1024xf32>) attrs {threads = 128, resources_are_hints = true} {
  launch 8, 8, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xf16>}
    %Bs = alloc {type_ = shared<32x64xf16>}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %r = mul %by, 64 : i32
    %s = mul %bx, 64 : i32
    %sum = for 0, 32, 1, [%z] {kind = "pipelined", stages = 2} (%k: i32, %c: tile<64x64xf32>) {
      %at = mul %k, 32 : i32
      copy %A[%r, %at], %As[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[%at, %s], %Bs[0, 0] {shape = (32, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      %d = gemm %As[0, 0], %Bs[0, 0], %c
      yield %d
    }
    store %C[%r, %s], %sum {dims = (0, 1)}
  }
}

// ----
tile kernel @matmul(%A: tensor<1024x1024xf16>, %B: tensor<1024x1024xf16>, %C: tensor<1024x1024xf32>) attrs {threads = 128, resources_are_hints = true} {
  launch 8, 8, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xf16>} : shared<64x32xf16>
    %Bs = alloc {type_ = shared<32x64xf16>} : shared<32x64xf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %r = mul %by, 64 : i32
    %s = mul %bx, 64 : i32
    %sum = for 0, 32, 1, [%z] {kind = "pipelined", stages = 2} : tile<64x64xf32> (%k: i32, %c: tile<64x64xf32>) {
      %at = mul %k, 32 : i32
      copy %A[%r, %at], %As[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[%at, %s], %Bs[0, 0] {shape = (32, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      %d = gemm %As[0, 0], %Bs[0, 0], %c : tile<64x64xf32>
      yield %d
    }
    store %C[%r, %s], %sum {dims = (0, 1)}
  }
}
