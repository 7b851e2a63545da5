// Masks that stay: of numbers from memory, whose greatest is not known; of equality; of what a scalar condition says,
// which is one decision already.
// pass: version_masks
// target: sm_80
tile kernel @stays(%A: tensor<512xf32>, %I: tensor<32xi32>, %C: tensor<32xf32>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %z = splat 0.0 {shape = (32,)} : tile<32xf32>
    %i = iota {shape = (32,), dim = 0} : tile<32xi32>
    %r = for 0, 4, 1, [%z] (%k: i32, %c: tile<32xf32>) {
      %x = load %A[%k] {shape = (32,), dims = (0,)} : tile<32xf32>
      %at = load %I[0] {shape = (32,), dims = (0,)} : tile<32xi32>
      %read = cmp %at, %n {predicate = "lt"} : tile<32xbool>
      %y = select %read, %x, %z : tile<32xf32>
      %one = cmp %i, %k {predicate = "eq"} : tile<32xbool>
      %v = select %one, %y, %z : tile<32xf32>
      %first = cmp %k, %n {predicate = "lt"} : bool
      %w = select %first, %v, %z : tile<32xf32>
      %s = add %c, %w : tile<32xf32>
      yield %s
    }
    store %C[0], %r {dims = (0,)}
  }
}

// ----
tile kernel @stays(%A: tensor<512xf32>, %I: tensor<32xi32>, %C: tensor<32xf32>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %z = splat 0.0 {shape = (32,)} : tile<32xf32>
    %i = iota {shape = (32,), dim = 0} : tile<32xi32>
    %r = for 0, 4, 1, [%z] : tile<32xf32> (%k: i32, %c: tile<32xf32>) {
      %x = load %A[%k] {shape = (32,), dims = (0,)} : tile<32xf32>
      %at = load %I[0] {shape = (32,), dims = (0,)} : tile<32xi32>
      %read = cmp %at, %n {predicate = "lt"} : tile<32xbool>
      %y = select %read, %x, %z : tile<32xf32>
      %one = cmp %i, %k {predicate = "eq"} : tile<32xbool>
      %v = select %one, %y, %z : tile<32xf32>
      %first = cmp %k, %n {predicate = "lt"} : bool
      %w = select %first, %v, %z : tile<32xf32>
      %s = add %c, %w : tile<32xf32>
      yield %s
    }
    store %C[0], %r {dims = (0,)}
  }
}
