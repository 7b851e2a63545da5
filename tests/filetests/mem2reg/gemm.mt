// pass: mem2reg
traced kernel @gemm(%A: tensor<MxKxf16>, %B: tensor<NxKxf16>, %C: tensor<MxNxf16>) dims(M = %M: i32, N = %N: i32, K = %K: i32) {
  launch 4, 4, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xf16>}
    %Bs = alloc {type_ = shared<64x32xf16>}
    %acc = alloc {type_ = fragment<64x64xf32>}
    fill %acc[0, 0], 0.0 {shape = (64, 64), dims = (0, 1)}
    %row = mul %by, 64
    %column = mul %bx, 64
    %n = floordiv %K, 32
    for 0, %n, 1 {kind = "pipelined", stages = 3} (%k: i32) {
      %at = mul %k, 32
      copy %A[%row, %at], %As[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[%column, %at], %Bs[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      gemm_into %As[0, 0], %Bs[0, 0], %acc {transpose_b = true}
      yield
    }
    copy %acc[0, 0], %C[%row, %column] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
  }
}

// ----
tile kernel @gemm(%A: tensor<MxKxf16>, %B: tensor<NxKxf16>, %C: tensor<MxNxf16>) dims(M = %M: i32, N = %N: i32, K = %K: i32) {
  launch 4, 4, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xf16>} : shared<64x32xf16>
    %Bs = alloc {type_ = shared<64x32xf16>} : shared<64x32xf16>
    %acc = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %row = mul %by, 64 : i32
    %column = mul %bx, 64 : i32
    %n = floordiv %K, 32 : i32
    %acc_1 = for 0, %n, 1, [%acc] {kind = "pipelined", stages = 3} : tile<64x64xf32> (%k: i32, %acc_2: tile<64x64xf32>) {
      %at = mul %k, 32 : i32
      copy %A[%row, %at], %As[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[%column, %at], %Bs[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      %acc_3 = gemm %As[0, 0], %Bs[0, 0], %acc_2 {transpose_b = true} : tile<64x64xf32>
      yield %acc_3
    }
    %0 = cast %acc_1 {to = f16} : tile<64x64xf16>
    store %C[%row, %column], %0 {dims = (0, 1)}
  }
}
