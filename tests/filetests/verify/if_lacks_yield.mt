// A branch may end without a yield only when nothing is expected of it.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = if true then {  // expect-error: a block lacks its yield of (i32)
    yield %n
  } orelse {
  }
}
