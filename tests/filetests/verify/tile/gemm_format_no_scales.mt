// Packed elements are multiplied with scales only.
tile kernel @k(%C: tensor<64x64xf32>, %S: tensor<64x8xu8>) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x256xe4m3>}
    %Bs = alloc {type_ = shared<64x128xu8>}
    %z = splat 0.0 {shape = (64, 64)}
    %s = load %S[0, 0] {shape = (64, 8), dims = (0, 1)}
    %h = load %S[0, 0] {shape = (64, 4), dims = (0, 1)}
    %c = gemm %Bs[0, 0], %Bs[0, 0], %z {transpose_b = true, a_format = "e2m1", b_format = "e2m1"}  // expect-error: an operand of e2m1 has no scales
    store %C[0, 0], %c {dims = (0, 1)}
  }
}
