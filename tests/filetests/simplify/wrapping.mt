// pass: simplify
// Loaded numbers may be anything, and their arithmetic wraps: x*3/3 is not x, and x < x+1 is not always so.
tile kernel @wrapping(%A: tensor<64xi32>, %B: tensor<64xu32>) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %A[0] {shape = (), dims = (none,)}
    %y = mul %x, 3
    %z = floordiv %y, 3
    %p = add %x, 1
    %less = cmp %x, %p {predicate = "lt"}
    %l = cast %less {to = i32}
    store %A[1], %z {dims = (none,)}
    store %A[2], %l {dims = (none,)}
    %u = load %B[0] {shape = (), dims = (none,)}
    %v = sub %u, 1:u32
    %big = cmp %v, %u {predicate = "gt"}
    %b = cast %big {to = i32}
    store %A[3], %b {dims = (none,)}
    // Even so, a multiple of four stays one when it wraps.
    %four = mul %x, 4
    %r = floormod %four, 4
    store %A[4], %r {dims = (none,)}
  }
}

// ----
tile kernel @wrapping(%A: tensor<64xi32>, %B: tensor<64xu32>) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %A[0] {shape = (), dims = (none,)} : i32
    %y = mul %x, 3 : i32
    %z = floordiv %y, 3 : i32
    %p = add %x, 1 : i32
    %less = cmp %x, %p {predicate = "lt"} : bool
    %l = cast %less {to = i32} : i32
    store %A[1], %z {dims = (none,)}
    store %A[2], %l {dims = (none,)}
    %u = load %B[0] {shape = (), dims = (none,)} : u32
    %v = add %u, 4294967295:u32 : u32
    %big = cmp %v, %u {predicate = "gt"} : bool
    %b = cast %big {to = i32} : i32
    store %A[3], %b {dims = (none,)}
    store %A[4], 0 {dims = (none,)}
  }
}
