// A store does not convert.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  store %A[0, 0], %n {dims = (none, none)}  // expect-error: the value is i32, the memory tensor<64x64xf32>
}
