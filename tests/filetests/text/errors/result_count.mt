// As many names as results.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a, %b = add %n, %n  // expect-error: add has 1 results here, not 2
}
