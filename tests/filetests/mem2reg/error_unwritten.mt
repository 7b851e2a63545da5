// pass: mem2reg
traced kernel @k(%A: tensor<64x64xf32>) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xf32>}
    %C_local = alloc {type_ = fragment<64x64xf32>}
    for 0, 4, 1 (%k: i32) {
      copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      gemm_into %As[0, 0], %As[0, 0], %C_local // expect-error: C_local is read before it is written
      yield
    }
  }
}
