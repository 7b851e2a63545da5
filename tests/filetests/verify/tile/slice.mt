// A slice stays inside.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %t = splat %x {shape = (4, 8)}
  %p = slice %t {offsets = (2, 0), shape = (4, 8)}  // expect-error: leaves tile<4x8xf32>
}
