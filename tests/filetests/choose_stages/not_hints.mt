// A kernel that says how many stages it has keeps them.
// pass: choose_stages
// target: sm_90a
tile kernel @matmul(%A: tensor<1024x1024xf16>, %B: tensor<1024x1024xf16>, %C: tensor<1024x1024xf32>) attrs {threads = 128} {
  launch 8, 8, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<128x32xf16>}
    %Bs = alloc {type_ = shared<32x128xf16>}
    %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
    %r = mul %by, 128 : i32
    %s = mul %bx, 128 : i32
    %sum = for 0, 32, 1, [%z] (%k: i32, %c: tile<128x128xf32>) {
      %at = mul %k, 32 : i32
      copy %A[%r, %at], %As[0, 0] {shape = (128, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[%at, %s], %Bs[0, 0] {shape = (32, 128), src_dims = (0, 1), dst_dims = (0, 1)}
      %d = gemm %As[0, 0], %Bs[0, 0], %c
      yield %d
    }
    store %C[%r, %s], %sum {dims = (0, 1)}
  }
}

// ----
tile kernel @matmul(%A: tensor<1024x1024xf16>, %B: tensor<1024x1024xf16>, %C: tensor<1024x1024xf32>) attrs {threads = 128} {
  launch 8, 8, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<128x32xf16>} : shared<128x32xf16>
    %Bs = alloc {type_ = shared<32x128xf16>} : shared<32x128xf16>
    %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
    %r = mul %by, 128 : i32
    %s = mul %bx, 128 : i32
    %sum = for 0, 32, 1, [%z] : tile<128x128xf32> (%k: i32, %c: tile<128x128xf32>) {
      %at = mul %k, 32 : i32
      copy %A[%r, %at], %As[0, 0] {shape = (128, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[%at, %s], %Bs[0, 0] {shape = (32, 128), src_dims = (0, 1), dst_dims = (0, 1)}
      %d = gemm %As[0, 0], %Bs[0, 0], %c : tile<128x128xf32>
      yield %d
    }
    store %C[%r, %s], %sum {dims = (0, 1)}
  }
}
