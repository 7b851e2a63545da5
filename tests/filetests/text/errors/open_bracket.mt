// Angle brackets close on their line.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = alloc {type_ = shared<64xf32}  // expect-error: '<' without its '>'
}
