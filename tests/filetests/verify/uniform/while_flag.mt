// A while loop whose condition varies.
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  %t = thread_index
  %e = while 0 before (%i: i32) {
    %p = cmp %i, %t {predicate = "lt"}
    condition %p, [%i]
  } body (%j: i32) {
    sync_threads  // expect-error: but the while
    %j1 = add %j, 1
    yield %j1
  }
}
