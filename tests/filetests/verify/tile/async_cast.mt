// Asynchronous copies move bytes.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %s = alloc {type_ = shared<64x64xf16>}
  %t = async_copy %A[0, 0], %s[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}  // expect-error: no cast on the way
}
