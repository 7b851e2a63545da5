// A value inside a region is not seen outside.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  if true then {
    %a = add %n, 1
    yield
  } orelse {
    yield
  }
  %b = add %a, 1  // expect-error: %a is not defined here
}
