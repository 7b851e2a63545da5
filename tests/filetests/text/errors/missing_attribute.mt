// An attribute without a default must be given.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = cast %n  // expect-error: cast lacks its attribute 'to'
}
