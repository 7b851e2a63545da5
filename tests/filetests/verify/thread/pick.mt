// Registers that the value has.
thread kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32, %p: bool) {
  %q = pick %x {indices = (0, 1)}  // expect-error: f32 has registers 0..0, asked for (0, 1)
}
