// The reduced dimension exists.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %t = splat %x {shape = (4, 8)}
  %r = reduce %t {dim = 2, kind = "sum"}  // expect-error: dimension 2 of rank 2
}
