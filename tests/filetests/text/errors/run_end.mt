// A run ends where its steps lead.
thread kernel @k(%n: i32) {
  %o = offsets %n {constants = (0, 4, .., 14)}  // expect-error: 14 is not reached from 4 in steps of 4
}
