// pass: simplify
// Loops of no trip and of one go; a carried value that never changes, or that is not read, is carried no more.
tile kernel @loops(%A: tensor<64xf32>, %n: i32) dims(K = %K: i32) facts {K = 64} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %z = load %A[0] {shape = (), dims = (none,)}
    %none = for 5, 5, 1, [%z] : f32 (%k: i32, %c: f32) {
      %d = add %c, 1.0
      yield %d
    }
    store %A[1], %none {dims = (none,)}
    %once = for 3, 7, 4, [%none] : f32 (%k: i32, %c: f32) {
      store %A[%k], %c {dims = (none,)}
      %d = add %c, 1.0
      yield %d
    }
    store %A[2], %once {dims = (none,)}
    %same, %sum, %unread = for 0, %n, 1, [%z, %once, %once] : f32, f32, f32 (%k: i32, %c: f32, %s: f32, %u: f32) {
      %d = add %s, %c
      %e = mul %u, %u
      yield %c, %d, %e
    }
    store %A[4], %sum {dims = (none,)}
    store %A[5], %same {dims = (none,)}
    // Only entered when K > 0, and then K >= 64: the inner loop has at least one trip, its first condition holds.
    %p = cmp 0, %K {predicate = "lt"}
    if %p then {
      %q = cmp 63, %K {predicate = "lt"}
      if %q then {
        store %A[6], %z {dims = (none,)}
      } orelse {
        store %A[7], %z {dims = (none,)}
      }
    } orelse {
    }
    // Nothing is left of these two.
    for 0, %n, 1 (%k: i32) {
      %unused = load %A[%k] {shape = (), dims = (none,)}
    }
    if %p then {
      %unused = add %n, 1
    } orelse {
    }
  }
}

// ----
tile kernel @loops(%A: tensor<64xf32>, %n: i32) dims(K = %K: i32) facts {K = 64} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %z = load %A[0] {shape = (), dims = (none,)} : f32
    store %A[1], %z {dims = (none,)}
    store %A[3], %z {dims = (none,)}
    %d = add %z, 1.0 : f32
    store %A[2], %d {dims = (none,)}
    %sum = for 0, %n, 1, [%d] : f32 (%k: i32, %s: f32) {
      %d_1 = add %s, %z : f32
      yield %d_1
    }
    store %A[4], %sum {dims = (none,)}
    store %A[5], %z {dims = (none,)}
    %p = cmp 0, %K {predicate = "lt"} : bool
    if %p then {
      store %A[6], %z {dims = (none,)}
    } orelse {
    }
  }
}
