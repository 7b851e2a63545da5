// Scales of one operand alone.
tile kernel @k(%C: tensor<64x64xf32>, %S: tensor<64x8xu8>) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x256xe4m3>}
    %Bs = alloc {type_ = shared<64x128xu8>}
    %z = splat 0.0 {shape = (64, 64)}
    %s = load %S[0, 0] {shape = (64, 8), dims = (0, 1)}
    %h = load %S[0, 0] {shape = (64, 4), dims = (0, 1)}
    %c = gemm %As[0, 0], %As[0, 0], %z, a_scale = %s {transpose_b = true}  // expect-error: one operand has scales, the other none
    store %C[0, 0], %c {dims = (0, 1)}
  }
}
