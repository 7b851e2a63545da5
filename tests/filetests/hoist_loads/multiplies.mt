// A loop that multiplies tiles keeps its loads, beside copies to shared memory.
// pass: hoist_loads
// target: sm_80
tile kernel @multiplies(%A: tensor<64x4096xf16>, %X: tensor<64x64xf32>, %C: tensor<64x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<64x64xf16>}
    %zero = splat 0.0 {shape = (64, 64)}
    %sum = for 0, 64, 1, [%zero] : tile<64x64xf32> (%k: i32, %c: tile<64x64xf32>) {
      %at = mul %k, 64
      %t = async_copy %A[0, %at], %s[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      wait %t
      %x = load %X[0, %k] {shape = (64,), dims = (0, none)}
      %d = gemm %s[0, 0], %s, [0, 0], %c {transpose_b = true}
      %w = expand %x {dim = 1, size = 64}
      %e = mul %d, %w
      yield %e
    }
    store %C[0, 0], %sum {dims = (0, 1)}
  }
}

// ----
tile kernel @multiplies(%A: tensor<64x4096xf16>, %X: tensor<64x64xf32>, %C: tensor<64x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
    %zero = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %sum = for 0, 64, 1, [%zero] : tile<64x64xf32> (%k: i32, %c: tile<64x64xf32>) {
      %at = mul %k, 64 : i32
      %t = async_copy %A[0, %at], %s[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)} : token
      wait %t
      %x = load %X[0, %k] {shape = (64,), dims = (0, none)} : tile<64xf32>
      %d = gemm %s[0, 0], %s[0, 0], %c {transpose_b = true} : tile<64x64xf32>
      %w = expand %x {dim = 1, size = 64} : tile<64x64xf32>
      %e = mul %d, %w : tile<64x64xf32>
      yield %e
    }
    store %C[0, 0], %sum {dims = (0, 1)}
  }
}
