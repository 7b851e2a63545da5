// Operands must all be given.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = add %n  // expect-error: add lacks its operand 'b'
}
