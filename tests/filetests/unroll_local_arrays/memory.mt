// pass: unroll_local_arrays
// Arrays that stay in memory, and their loops: one is indexed by a number of run time, one may be indexed outside, one
// is too long.
traced kernel @memory(%A: tensor<64xf32>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = alloc {type_ = local<4xf32>}
    %b = alloc {type_ = local<4xf32>}
    %c = alloc {type_ = local<100xf32>}
    for 0, 4, 1 (%k: i32) {
      store %a[%k], 0.0 {dims = (none,)}
      yield
    }
    store %a[%n], 1.0 {dims = (none,)}
    for 0, 5, 1 (%k: i32) {
      %some = cmp %k, %n {predicate = "lt"}
      if %some then {
        store %b[%k], 0.0 {dims = (none,)}
        yield
      } orelse {
        yield
      }
      yield
    }
    for 0, 100, 1 (%k: i32) {
      store %c[%k], 0.0 {dims = (none,)}
      yield
    }
  }
}

// ----
traced kernel @memory(%A: tensor<64xf32>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = alloc {type_ = local<4xf32>} : local<4xf32>
    %b = alloc {type_ = local<4xf32>} : local<4xf32>
    %c = alloc {type_ = local<100xf32>} : local<100xf32>
    for 0, 4, 1 (%k: i32) {
      store %a[%k], 0.0 {dims = (none,)}
      yield
    }
    store %a[%n], 1.0 {dims = (none,)}
    for 0, 5, 1 (%k_1: i32) {
      %some = cmp %k_1, %n {predicate = "lt"} : bool
      if %some then {
        store %b[%k_1], 0.0 {dims = (none,)}
        yield
      } orelse {
        yield
      }
      yield
    }
    for 0, 100, 1 (%k_2: i32) {
      store %c[%k_2], 0.0 {dims = (none,)}
      yield
    }
  }
}
