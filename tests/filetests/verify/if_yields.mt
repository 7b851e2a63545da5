// Both branches yield the results' types.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = if true then {  // expect-error: the block's yield has (f32), not (i32)
    yield %n
  } orelse {
    yield %x
  }
}
