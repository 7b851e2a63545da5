// pass: unroll_local_arrays
// Loops whose numbers are in indices of arrays; of a branch on such a number one side is left. The loop that only counts
// a tensor's elements stays.
traced kernel @arrays(%A: tensor<64xf32>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = alloc {type_ = local<2x2xf32>}
    for 0, 2, 1 (%i: i32) {
      for 0, 2, 1 (%j: i32) {
        %d = sub 1, %j
        %first = cmp %i, 0 {predicate = "eq"}
        %x = if %first then {
          %y = load %A[%n] {shape = (), dims = (none,)}
          yield %y
        } orelse {
          yield 1.0
        }
        store %a[%i, %d], %x {dims = (none, none)}
        yield
      }
      yield
    }
    %t = for 0, 4, 1, [0.0] : f32 (%k: i32, %c: f32) {
      %z = load %A[%k] {shape = (), dims = (none,)}
      %e = add %c, %z
      yield %e
    }
    store %A[0], %t {dims = (none,)}
  }
}

// ----
traced kernel @arrays(%A: tensor<64xf32>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = alloc {type_ = local<2x2xf32>} : local<2x2xf32>
    %y = load %A[%n] {shape = (), dims = (none,)} : f32
    store %a[0, 1], %y {dims = (none, none)}
    %y_1 = load %A[%n] {shape = (), dims = (none,)} : f32
    store %a[0, 0], %y_1 {dims = (none, none)}
    store %a[1, 1], 1.0 {dims = (none, none)}
    store %a[1, 0], 1.0 {dims = (none, none)}
    %t = for 0, 4, 1, [0.0] : f32 (%k: i32, %c: f32) {
      %z = load %A[%k] {shape = (), dims = (none,)} : f32
      %e = add %c, %z : f32
      yield %e
    }
    store %A[0], %t {dims = (none,)}
  }
}
