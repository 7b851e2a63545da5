// As many types as results.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = add %n, %n : i32, i32  // expect-error: add has 1 results here, not 2
}
