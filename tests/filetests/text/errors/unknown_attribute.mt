// Attributes are the class's.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = cast %n {too = f32}  // expect-error: cast has no attribute 'too'
}
