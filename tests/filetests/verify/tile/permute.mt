// Each dimension once.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %t = splat %x {shape = (4, 8)}
  %p = permute %t {order = (0, 0)}  // expect-error: (0, 0) permutes no tile<4x8xf32>
}
