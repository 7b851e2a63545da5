// pass: fragments_to_values
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %F = alloc {type_ = fragment<64x64xf32>}
    fill %F[0, 0], 0.0 {shape = (64, 64), dims = (0, 1)}
    copy %F[%n, 0], %A[0, 0] {shape = (8, 64), src_dims = (0, 1), dst_dims = (0, 1)} // expect-error: at an offset that only run time knows
  }
}
