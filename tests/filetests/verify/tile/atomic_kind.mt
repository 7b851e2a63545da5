// What the hardware can do atomically.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %o = atomic %A[0, 0], %x {kind = "mul", dims = (none, none)}  // expect-error: unknown atomic 'mul'
}
