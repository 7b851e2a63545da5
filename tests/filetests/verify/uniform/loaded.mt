// What is loaded from an address that varies varies.
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  %t = thread_index
  %v = load %A[%t, 0] {shape = (), dims = (none, none)}
  %c = cmp %v, 0.0 {predicate = "lt"}
  if %c then {
    sync_threads  // expect-error: all threads must reach sync_threads together, but the if
  } orelse {
  }
}
