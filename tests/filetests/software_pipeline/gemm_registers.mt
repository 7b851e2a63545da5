// pass: software_pipeline
// target: gfx942
tile kernel @gemm(%A: tensor<64xKxf16>, %B: tensor<64xKxf16>, %C: tensor<64x64xf32>) dims(K = %K: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xf16>}
    %Bs = alloc {type_ = shared<64x32xf16>}
    %zero = splat 0.0 {shape = (64, 64)}
    %n = floordiv %K, 32
    %acc = for 0, %n, 1, [%zero] {kind = "pipelined", stages = 3} (%k: i32, %c: tile<64x64xf32>) {
      %at = mul %k, 32
      copy %A[0, %at], %As[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[0, %at], %Bs[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      %d = gemm %As[0, 0], %Bs[0, 0], %c {transpose_b = true}
      yield %d
    }
    store %C[0, 0], %acc {dims = (0, 1)}
  }
}

// ----
tile kernel @gemm(%A: tensor<64xKxf16>, %B: tensor<64xKxf16>, %C: tensor<64x64xf32>) dims(K = %K: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<2 versions x 64x32xf16>} : shared<2 versions x 64x32xf16>
    %Bs = alloc {type_ = shared<2 versions x 64x32xf16>} : shared<2 versions x 64x32xf16>
    %zero = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %n = floordiv %K, 32 : i32
    %0 = cmp 0, %n {predicate = "lt"} : bool
    %1, %2 = if %0 : tile<64x32xf16>, tile<64x32xf16> then {
      %As_1 = load %A[0, 0] {shape = (64, 32), dims = (0, 1)} : tile<64x32xf16>
      %Bs_1 = load %B[0, 0] {shape = (64, 32), dims = (0, 1)} : tile<64x32xf16>
      yield %As_1, %Bs_1
    } orelse {
      %3 = splat 0.0:f16 {shape = (64, 32)} : tile<64x32xf16>
      %4 = splat 0.0:f16 {shape = (64, 32)} : tile<64x32xf16>
      yield %3, %4
    }
    %acc, %5, %6 = for 0, %n, 1, [%zero, %1, %2] : tile<64x64xf32>, tile<64x32xf16>, tile<64x32xf16> (%k: i32, %c: tile<64x64xf32>, %ahead: tile<64x32xf16>, %ahead_1: tile<64x32xf16>) {
      %slot = floormod %k, 2 : i32
      store %As[0, 0], %ahead, slot = %slot {dims = (0, 1)}
      store %Bs[0, 0], %ahead_1, slot = %slot {dims = (0, 1)}
      %7 = add %k, 1 : i32
      %8 = cmp %7, %n {predicate = "lt"} : bool
      %9, %10 = if %8 : tile<64x32xf16>, tile<64x32xf16> then {
        %at_ahead = mul %7, 32 : i32
        %As_2 = load %A[0, %at_ahead] {shape = (64, 32), dims = (0, 1)} : tile<64x32xf16>
        %Bs_2 = load %B[0, %at_ahead] {shape = (64, 32), dims = (0, 1)} : tile<64x32xf16>
        yield %As_2, %Bs_2
      } orelse {
        %11 = splat 0.0:f16 {shape = (64, 32)} : tile<64x32xf16>
        %12 = splat 0.0:f16 {shape = (64, 32)} : tile<64x32xf16>
        yield %11, %12
      }
      %d = gemm %As[0, 0], %Bs[0, 0], %c, a_slot = %slot, b_slot = %slot {transpose_b = true} : tile<64x64xf32>
      yield %d, %9, %10
    }
    store %C[0, 0], %acc {dims = (0, 1)}
  }
}
