// Long tuples of numbers are shortened where five or more go in equal steps.
thread kernel @runs(%n: i32) {
  %a = offsets %n {constants = (0, 0, 0, 0, 0, 8, 8)}
  %b = offsets %n {constants = (0, 16, 32, 48, 64, 7 * 3)}
  %c = offsets %n {constants = (5, 4, .., -2)}
  %d = pick %a {indices = (0, 2, 4, 6, 1, 3, 5)}
}
// ----
thread kernel @runs(%n: i32) {
  %a = offsets %n {constants = (0 * 5, 8, 8)} : regs<7xi32>
  %b = offsets %n {constants = (0, 16, .., 64, 7, 7, 7)} : regs<8xi32>
  %c = offsets %n {constants = (5, 4, .., -2)} : regs<8xi32>
  %d = pick %a {indices = (0, 2, 4, 6, 1, 3, 5)} : regs<7xi32>
}
