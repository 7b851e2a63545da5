// Scales are bytes, or numbers of e4m3.
tile kernel @k(%C: tensor<64x64xf32>, %S: tensor<64x256xf32>) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x256xe4m3>}
    %z = splat 0.0 {shape = (64, 64)}
    %s = load %S[0, 0] {shape = (64, 256), dims = (0, 1)}
    %c = gemm %As[0, 0], %As[0, 0], %z, a_scale = %s, b_scale = %s {transpose_b = true}  // expect-error: the scales of 64x256 are tile<64x256xf32>
    store %C[0, 0], %c {dims = (0, 1)}
  }
}
