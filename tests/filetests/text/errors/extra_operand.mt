// No operand may be left over.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = neg %n, %n  // expect-error: neg has no such operand
}
