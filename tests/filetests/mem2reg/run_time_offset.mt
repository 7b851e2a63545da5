// pass: mem2reg
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %F = alloc {type_ = fragment<64x64xf32>}
    fill %F[0, 0], 0.0 {shape = (64, 64), dims = (0, 1)}
    copy %F[%n, 0], %A[0, 0] {shape = (8, 64), src_dims = (0, 1), dst_dims = (0, 1)}
  }
}

// ----
tile kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %F_copy = alloc {type_ = shared<64x64xf32>} : shared<64x64xf32>
    %F = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    store %F_copy[0, 0], %F {dims = (0, 1)}
    %0 = max %n, 0 : i32
    %1 = min %0, 56 : i32
    %2 = load %F_copy[%1, 0] {shape = (8, 64), dims = (0, 1)} : tile<8x64xf32>
    store %A[0, 0], %2 {dims = (0, 1)}
  }
}
