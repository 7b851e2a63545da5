// pass: check_bounds
traced kernel @k(%A: tensor<8x64xf32>) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<8x8xf32>}
    copy %A[0, -8], %S[0, 0] {shape = (8, 8), src_dims = (0, 1), dst_dims = (0, 1)} // expect-error: the index is -8 … -1
  }
}
