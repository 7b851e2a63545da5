// Entries of copies become -1, also where an earlier stage is what sends them ahead; the others' stages start at 0.
// pass: check_schedule
tile kernel @k(%A: tensor<64x64xf32>, %C: tensor<64x64xf32>) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<16x64xf32>} : shared<16x64xf32>
    for 0, 4, 1 {kind = "pipelined", stages = 3, order = (0, 2, 1), stage_of = (0, 1, 2)} (%k: i32) {
      %row = mul %k, 16
      statement {number = 0}
      copy %A[%row, 0], %S[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      statement {number = 1}
      %s = load %S[0, 0] {shape = (16, 64), dims = (0, 1)}
      statement {number = 2}
      store %C[%row, 0], %s {dims = (0, 1)}
      yield
    }
  }
}

// ----
tile kernel @k(%A: tensor<64x64xf32>, %C: tensor<64x64xf32>) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<16x64xf32>} : shared<16x64xf32>
    for 0, 4, 1 {kind = "pipelined", stages = 3, order = (-1, 2, 1), stage_of = (-1, 0, 1)} (%k: i32) {
      %row = mul %k, 16 : i32
      statement {number = 0}
      copy %A[%row, 0], %S[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      statement {number = 1}
      %s = load %S[0, 0] {shape = (16, 64), dims = (0, 1)} : tile<16x64xf32>
      statement {number = 2}
      store %C[%row, 0], %s {dims = (0, 1)}
      yield
    }
  }
}
