// The same in thread IR.
thread kernel @k(%n: i32) {
  %t = special {register = "laneid"}
  %c = cmp %t, 1 {predicate = "lt"}
  if %c then {
    barrier  // expect-error: all threads must reach barrier together
  } orelse {
  }
}
