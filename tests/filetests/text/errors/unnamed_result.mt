// Results have names.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  add %n, %n  // expect-error: add has 1 results here, not 0
}
