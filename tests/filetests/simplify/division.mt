// pass: simplify
// Quotients and remainders of what is known to be a multiple plus a small rest.
tile kernel @division(%A: tensor<64xi32>, %n: i32) dims(M = %M: i32) facts {M = 128} {
  %rows = add %M, 127
  %blocks = floordiv %rows, 128
  launch %blocks, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index
    %base = mul %bx, 128
    %row = add %base, %t
    %q = floordiv %row, 128
    %r = floormod %row, 128
    store %A[%q], %r {dims = (none,)}
    %inside = cmp %row, %M {predicate = "lt"}
    %outside = cmp %row, %M {predicate = "ge"}
    %i = cast %inside {to = i32}
    %o = cast %outside {to = i32}
    store %A[%i], %o {dims = (none,)}
    %m = min %r, 127
    %x = max %r, -1
    store %A[%m], %x {dims = (none,)}
    %wide = cast %row {to = i64}
    %narrow = cast %wide {to = i32}
    %a = add %narrow, 3
    %b = add %a, 4
    %c = sub %b, 5
    %e = mul %c, 2
    %f = mul %e, 3
    store %A[%c], %f {dims = (none,)}
    // Of n nothing is known: it stays.
    %u = floordiv %n, 128
    %v = floormod %n, 128
    %w = cmp %n, %M {predicate = "lt"}
    %y = cast %w {to = i32}
    %s = add %u, %v
    store %A[%y], %s {dims = (none,)}
  }
}

// ----
tile kernel @division(%A: tensor<64xi32>, %n: i32) dims(M = %M: i32) facts {M = 128} {
  %rows = add %M, 127 : i32
  %blocks = floordiv %rows, 128 : i32
  launch %blocks, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index : i32
    %base = mul %bx, 128 : i32
    %row = add %base, %t : i32
    store %A[%bx], %t {dims = (none,)}
    store %A[1], 0 {dims = (none,)}
    store %A[%t], %t {dims = (none,)}
    %c = add %row, 2 : i32
    %f = mul %c, 6 : i32
    store %A[%c], %f {dims = (none,)}
    %u = floordiv %n, 128 : i32
    %v = floormod %n, 128 : i32
    %w = cmp %n, %M {predicate = "lt"} : bool
    %y = cast %w {to = i32} : i32
    %s = add %u, %v : i32
    store %A[%y], %s {dims = (none,)}
  }
}
