// A barrier under a condition of the thread's index.
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  %t = thread_index
  %c = cmp %t, 32 {predicate = "lt"}
  if %c then {
    sync_threads  // expect-error: all threads must reach sync_threads together, but the if
  } orelse {
  }
}
