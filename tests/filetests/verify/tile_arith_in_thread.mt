// Nor can arithmetic make one.
thread kernel @k(%n: i32, %x: f32) {
  %t = add %n, 1 : tile<4xi32>  // expect-error: the results of add should be i32
}
