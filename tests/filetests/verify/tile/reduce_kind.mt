// The reductions there are.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %t = splat %x {shape = (4, 8)}
  %r = reduce %t {dim = 1, kind = "mean"}  // expect-error: unknown reduction 'mean'
}
