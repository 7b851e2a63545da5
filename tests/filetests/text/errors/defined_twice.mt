// A visible name is not given again.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = add %n, 1
  %a = add %n, 2  // expect-error: %a is already defined
}
