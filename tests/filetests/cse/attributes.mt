// pass: cse
// Equal are operations of one kind with the same attributes and result types, and constants of the same bits: 0.0 is not
// -0.0, `lt` is not `le`, a cast to i64 is not one to f32. Only what commutes may have its operands in another order.
tile kernel @attributes(%A: tensor<64xf32>, %n: i32, %x: f32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %less = cmp %n, %bx {predicate = "lt"}
    %same = cmp %n, %bx {predicate = "lt"}
    %least = cmp %n, %bx {predicate = "le"}
    %a = select %less, 1.0, 2.0
    %b = select %same, 1.0, 2.0
    %c = select %least, 1.0, 2.0
    %p = add %x, 0.0
    %q = add %x, -0.0
    %wide = cast %n {to = f32}
    %wide_too = cast %n {to = f32}
    %narrow = cast %n {to = i64}
    %d = sub %wide, %x
    %e = sub %x, %wide_too
    store %A[%narrow], %a {dims = (none,)}
    store %A[0], %b {dims = (none,)}
    store %A[1], %c {dims = (none,)}
    store %A[2], %p {dims = (none,)}
    store %A[3], %q {dims = (none,)}
    store %A[4], %d {dims = (none,)}
    store %A[5], %e {dims = (none,)}
  }
}

// ----
tile kernel @attributes(%A: tensor<64xf32>, %n: i32, %x: f32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %less = cmp %n, %bx {predicate = "lt"} : bool
    %least = cmp %n, %bx {predicate = "le"} : bool
    %a = select %less, 1.0, 2.0 : f32
    %c = select %least, 1.0, 2.0 : f32
    %p = add %x, 0.0 : f32
    %q = add %x, -0.0 : f32
    %wide = cast %n {to = f32} : f32
    %narrow = cast %n {to = i64} : i64
    %d = sub %wide, %x : f32
    %e = sub %x, %wide : f32
    store %A[%narrow], %a {dims = (none,)}
    store %A[0], %a {dims = (none,)}
    store %A[1], %c {dims = (none,)}
    store %A[2], %p {dims = (none,)}
    store %A[3], %q {dims = (none,)}
    store %A[4], %d {dims = (none,)}
    store %A[5], %e {dims = (none,)}
  }
}
