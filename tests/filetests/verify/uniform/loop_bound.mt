// A loop that threads run unequally often.
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  %t = thread_index
  for 0, %t, 1 (%k: i32) {
    sync_threads  // expect-error: but the for
  }
}
