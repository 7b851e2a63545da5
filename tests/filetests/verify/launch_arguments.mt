// A launch has three block indices.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  launch %n, 1, 1 {threads = 32} (%bx: i32) {  // expect-error: arguments are (i32), not (i32, i32, i32)
  }
}
