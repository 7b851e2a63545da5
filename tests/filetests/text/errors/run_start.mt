// A run continues two numbers.
thread kernel @k(%n: i32) {
  %o = offsets %n {constants = (0, .., 14)}  // expect-error: '..' continues the two numbers before it
}
