// What is allocated in the loop would be another buffer in each of the iterations that the schedule overlaps.
// pass: check_schedule
tile kernel @error_alloc(%A: tensor<64x64xf32>, %C: tensor<64x64xf32>) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    for 0, 4, 1 {kind = "pipelined", stages = 2, order = (0, 1), stage_of = (0, 1)} (%k: i32) {
      %row = mul %k, 16
      statement {number = 0}
      %S = alloc {type_ = shared<16x64xf32>} // expect-error: S is allocated in a loop with a schedule
      copy %A[%row, 0], %S[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      statement {number = 1}
      %s = load %S[0, 0] {shape = (16, 64), dims = (0, 1)}
      store %C[%row, 0], %s {dims = (0, 1)}
      yield
    }
  }
}
