// Results that cannot be inferred from such operands.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = permute %n {order = (0, 1)}  // expect-error: malformed permute
}
