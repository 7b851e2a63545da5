// Conditions are bool.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = while %n : i32 before (%i: i32) {
    condition %i, [%i]  // expect-error: the condition is i32, not bool
  } body (%j: i32) {
    yield %j
  }
}
