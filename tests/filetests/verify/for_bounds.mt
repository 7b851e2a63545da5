// Bounds have one type.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  for 0, %n, 1:i64 (%k: i32) {  // expect-error: bounds i32, i32, i64 are of different types
  }
}
