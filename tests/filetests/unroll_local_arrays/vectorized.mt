// pass: unroll_local_arrays
// Vectorized loops are unrolled whatever they index, but for those of many or of unknown rounds, with a barrier in them,
// or in T.Parallel.
traced kernel @vectorized(%A: tensor<64xf32>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    for 0, 2, 1 {kind = "vectorized"} (%k: i32) {
      store %A[%k], 1.0 {dims = (none,)}
      yield
    }
    for 0, 65, 1 {kind = "vectorized"} (%k: i32) {
      store %A[%k], 2.0 {dims = (none,)}
      yield
    }
    for 0, %n, 1 {kind = "vectorized"} (%k: i32) {
      store %A[%k], 3.0 {dims = (none,)}
      yield
    }
    for 0, 2, 1 {kind = "vectorized"} (%k: i32) {
      store %A[%k], 4.0 {dims = (none,)}
      sync_threads
      yield
    }
    parallel {extents = (4,)} (%p: i32) {
      for 0, 2, 1 {kind = "vectorized"} (%k: i32) {
        %q = add %p, %k
        store %A[%q], 5.0 {dims = (none,)}
        yield
      }
      yield
    }
  }
}

// ----
traced kernel @vectorized(%A: tensor<64xf32>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    store %A[0], 1.0 {dims = (none,)}
    store %A[1], 1.0 {dims = (none,)}
    for 0, 65, 1 {kind = "vectorized"} (%k: i32) {
      store %A[%k], 2.0 {dims = (none,)}
      yield
    }
    for 0, %n, 1 {kind = "vectorized"} (%k_1: i32) {
      store %A[%k_1], 3.0 {dims = (none,)}
      yield
    }
    for 0, 2, 1 {kind = "vectorized"} (%k_2: i32) {
      store %A[%k_2], 4.0 {dims = (none,)}
      sync_threads
      yield
    }
    parallel {extents = (4,)} (%p: i32) {
      for 0, 2, 1 {kind = "vectorized"} (%k_3: i32) {
        %q = add %p, %k_3 : i32
        store %A[%q], 5.0 {dims = (none,)}
        yield
      }
      yield
    }
  }
}
