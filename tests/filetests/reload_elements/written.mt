// What the kernel writes may be another when it is read again.
// pass: reload_elements
// target: sm_90a
tile kernel @k(%M: tensor<8x16xi32>, %Y: tensor<64xi32>) attrs {threads = 32} {
  launch 8, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %row = load %M[%bx, 4] {shape = (8,), dims = (none, 0)} : tile<8xi32>
    for 0, 8, 1 (%k: i32) {
      %m = extract %row[%k] : i32
      %c = cmp %m, 0 {predicate = "ne"} : bool
      if %c then {
        store %Y[%k], %m {dims = (none,)}
        yield
      } orelse {
        yield
      }
      store %M[%bx, %k], %m {dims = (none, none)}
      yield
    }
  }
}

// ----
tile kernel @k(%M: tensor<8x16xi32>, %Y: tensor<64xi32>) attrs {threads = 32} {
  launch 8, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %row = load %M[%bx, 4] {shape = (8,), dims = (none, 0)} : tile<8xi32>
    for 0, 8, 1 (%k: i32) {
      %m = extract %row[%k] : i32
      %c = cmp %m, 0 {predicate = "ne"} : bool
      if %c then {
        store %Y[%k], %m {dims = (none,)}
        yield
      } orelse {
        yield
      }
      store %M[%bx, %k], %m {dims = (none, none)}
      yield
    }
  }
}
