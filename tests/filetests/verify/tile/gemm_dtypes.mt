// One dtype for both factors.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %s = alloc {type_ = shared<64x64xf16>}
  %b = alloc {type_ = shared<64x64xbf16>}
  %z = splat 0.0 {shape = (64, 64)}
  %c = gemm %s[0, 0], %b[0, 0], %z  // expect-error: a is shared<64x64xf16>, b shared<64x64xbf16>
}
