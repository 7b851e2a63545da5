// The first block of a while ends in a condition.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = while %n : i32 before (%i: i32) {  // expect-error: a block ends in yield, not condition
    yield %i
  } body (%j: i32) {
    yield %j
  }
}
