// Constants chosen by a varying condition vary.
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  %t = thread_index
  %c = cmp %t, 32 {predicate = "lt"}
  %r = if %c then {
    yield 1
  } orelse {
    yield 2
  }
  %d = cmp %r, 1 {predicate = "eq"}
  if %d then {
    sync_threads  // expect-error: but the if
  } orelse {
  }
}
