// pass: unroll
// A branch of the body is copied as it is, in each round on that round's values; two carried values that are swapped are
// so in every round.
traced kernel @regions(%A: tensor<64xf32>, %n: i32, %x: f32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %p, %q = for 0, 3, 1, [%x, 0.0] {kind = "unroll"} : f32, f32 (%i: i32, %a: f32, %b: f32) {
      %some = cmp %n, %i {predicate = "gt"}
      if %some then {
        store %A[%i], %a {dims = (none,)}
        yield
      } orelse {
        yield
      }
      yield %b, %a
    }
    store %A[8], %p {dims = (none,)}
    store %A[9], %q {dims = (none,)}
  }
}

// ----
traced kernel @regions(%A: tensor<64xf32>, %n: i32, %x: f32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %some = cmp %n, 0 {predicate = "gt"} : bool
    if %some then {
      store %A[0], %x {dims = (none,)}
      yield
    } orelse {
      yield
    }
    %some_1 = cmp %n, 1 {predicate = "gt"} : bool
    if %some_1 then {
      store %A[1], 0.0 {dims = (none,)}
      yield
    } orelse {
      yield
    }
    %some_2 = cmp %n, 2 {predicate = "gt"} : bool
    if %some_2 then {
      store %A[2], %x {dims = (none,)}
      yield
    } orelse {
      yield
    }
    store %A[8], 0.0 {dims = (none,)}
    store %A[9], %x {dims = (none,)}
  }
}
