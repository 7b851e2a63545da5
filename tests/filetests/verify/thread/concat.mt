// Registers of one dtype.
thread kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32, %p: bool) {
  %q = concat %x, %n  // expect-error: the registers are of several dtypes
}
