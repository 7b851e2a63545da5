// Only tokens are waited for.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  wait %n  // expect-error: cannot wait for a i32
}
