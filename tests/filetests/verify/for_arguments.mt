// The body's arguments are the induction variable and what is carried.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = for 0, %n, 1, [%x] : f32 (%k: i32, %c: i32) {  // expect-error: arguments are (i32, i32), not (i32, f32)
    yield %x
  }
}
