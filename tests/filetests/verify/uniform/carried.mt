// What an iteration yields is what the next one carries.
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  %t = thread_index
  %e = for 0, %n, 1, [0] (%k: i32, %c: i32) {
    %p = cmp %c, 0 {predicate = "gt"}
    if %p then {
      sync_threads  // expect-error: but the if
    } orelse {
    }
    yield %t
  }
}
