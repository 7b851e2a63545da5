// Brackets stand for lists only.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = add [%n], %n  // expect-error: expected the operand 'a' of add
}
