// A matrix has two dimensions.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %s = alloc {type_ = shared<2 versions x 64x64xf32>}
  %z = splat 0.0 {shape = (64, 64)}
  %c = gemm %s[0, 0], %s[0, 0], %z {a_dims = (0, none)}  // expect-error: the matrix lies along dims (0, None)
}
