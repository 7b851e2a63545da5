// pass: unroll
// The inner bounds are constants once the outer index is; the loop over %n and the long one stay.
traced kernel @k(%A: tensor<64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %t = for 1, 3, 1, [0.0] {kind = "unroll"} : f32 (%i: i32, %c: f32) {
      %u = for 0, %i, 1, [%c] {kind = "unroll"} : f32 (%j: i32, %d: f32) {
        %at = mul %i, 4
        %at1 = add %at, %j
        %a = load %A[%at1] {shape = (), dims = (none,)}
        %e = add %d, %a
        yield %e
      }
      yield %u
    }
    store %A[0], %t {dims = (none,)}
    for 0, %n, 1 {kind = "unroll"} (%i: i32) {
      for 0, 2, 1 {kind = "unroll"} (%j: i32) {
        %s = add %i, %j
        store %A[%s], %t {dims = (none,)}
        yield
      }
      yield
    }
    for 0, 65, 1 {kind = "unroll"} (%i: i32) {
      store %A[%i], 1.0 {dims = (none,)}
      yield
    }
  }
}

// ----
traced kernel @k(%A: tensor<64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[4] {shape = (), dims = (none,)} : f32
    %e = add 0.0, %a : f32
    %a_1 = load %A[8] {shape = (), dims = (none,)} : f32
    %e_1 = add %e, %a_1 : f32
    %a_2 = load %A[9] {shape = (), dims = (none,)} : f32
    %e_2 = add %e_1, %a_2 : f32
    store %A[0], %e_2 {dims = (none,)}
    for 0, %n, 1 {kind = "unroll"} (%i: i32) {
      store %A[%i], %e_2 {dims = (none,)}
      %s = add %i, 1 : i32
      store %A[%s], %e_2 {dims = (none,)}
      yield
    }
    for 0, 65, 1 {kind = "unroll"} (%i_1: i32) {
      store %A[%i_1], 1.0 {dims = (none,)}
      yield
    }
  }
}
