// Nothing follows a terminator.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  if true then {
    yield  // expect-error: yield is not the last operation
    %a = add %n, 1
  } orelse {
  }
}
