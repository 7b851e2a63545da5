// Tiles have become registers.
thread kernel @k(%n: i32, %x: f32) {
  %t = iota {shape = (4,), dim = 0}  // expect-error: iota has no place in thread IR
}
