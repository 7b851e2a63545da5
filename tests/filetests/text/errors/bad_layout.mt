// A layout's own rules hold in text.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = splat %x {shape = (64,)} : tile<64xf32, layout<64; lane 16:1@0>>  // expect-error: 16, not to 32
}
