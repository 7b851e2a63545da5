// pass: software_pipeline
tile kernel @k(%A: tensor<64x64xf32>) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<16x64xf32>}
    for 0, 9, 2 {kind = "pipelined", stages = 2, order = (1, 0)} (%k: i32) { // expect-error: is planned
      copy %A[%k, 0], %S[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      yield
    }
  }
}
