// Operations come from the registry.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = addd %n, 1  // expect-error: there is no operation addd
}
