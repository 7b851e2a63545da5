// A name must be defined above its use.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = add %n, %b  // expect-error: %b is not defined here
}
