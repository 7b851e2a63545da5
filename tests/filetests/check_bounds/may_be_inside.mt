// pass: check_bounds
// Partly inside; under a condition; in a loop that may have no rounds.
traced kernel @k(%A: tensor<8x8xf32>, %n: i32) {
  launch 2, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<8x8xf32>}
    %row = mul %bx, 8
    copy %A[%row, -7], %S[0, 0] {shape = (8, 8), src_dims = (0, 1), dst_dims = (0, 1)}
    %c = cmp %n, 3 {predicate = "gt"}
    if %c {
      store %A[9, 0], 1.0 {dims = (none, none)}
      yield
    } {
      yield
    }
    for 0, %n, 1 (%i: i32) {
      %at = add %i, 8
      store %A[%at, 0], 1.0 {dims = (none, none)}
      yield
    }
  }
}

// ----
traced kernel @k(%A: tensor<8x8xf32>, %n: i32) {
  launch 2, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<8x8xf32>} : shared<8x8xf32>
    %row = mul %bx, 8 : i32
    copy %A[%row, -7], %S[0, 0] {shape = (8, 8), src_dims = (0, 1), dst_dims = (0, 1)}
    %c = cmp %n, 3 {predicate = "gt"} : bool
    if %c then {
      store %A[9, 0], 1.0 {dims = (none, none)}
      yield
    } orelse {
      yield
    }
    for 0, %n, 1 (%i: i32) {
      %at = add %i, 8 : i32
      store %A[%at, 0], 1.0 {dims = (none, none)}
      yield
    }
  }
}
