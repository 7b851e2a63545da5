// A result's type is the inferred one.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = add %n, 1 : f32  // expect-error: the results of add should be i32
}
