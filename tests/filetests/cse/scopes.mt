// pass: cse
// Equal operations in a block or below it are one; a branch's own are not known to the other branch.
tile kernel @scopes(%A: tensor<64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = add %n, %bx
    %b = add %bx, %n
    %c = sub %n, %bx
    %d = sub %bx, %n
    %p = cmp %a, %b {predicate = "lt"}
    if %p then {
      %e = add %n, %bx
      %f = mul %n, %n
      store %A[%e], 0.0 {dims = (none,)}
      store %A[%f], -0.0 {dims = (none,)}
    } orelse {
      %g = mul %n, %n
      store %A[%g], 0.0 {dims = (none,)}
    }
    // Memory may have changed: loads stay.
    %x = load %A[%c] {shape = (), dims = (none,)}
    store %A[%d], %x {dims = (none,)}
    %y = load %A[%c] {shape = (), dims = (none,)}
    store %A[%d], %y {dims = (none,)}
    // Tiles without a layout stay apart.
    %i = iota {shape = (32,), dim = 0}
    %j = iota {shape = (32,), dim = 0}
    %k = add %i, %j
    store %A[0], 1.0 {dims = (none,)}
    %s = reduce %k {dim = 0, kind = "sum"}
    %t = cast %s {to = f32}
    store %A[1], %t {dims = (none,)}
  }
}

// ----
tile kernel @scopes(%A: tensor<64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = add %n, %bx : i32
    %c = sub %n, %bx : i32
    %d = sub %bx, %n : i32
    %p = cmp %a, %a {predicate = "lt"} : bool
    if %p then {
      %f = mul %n, %n : i32
      store %A[%a], 0.0 {dims = (none,)}
      store %A[%f], -0.0 {dims = (none,)}
    } orelse {
      %g = mul %n, %n : i32
      store %A[%g], 0.0 {dims = (none,)}
    }
    %x = load %A[%c] {shape = (), dims = (none,)} : f32
    store %A[%d], %x {dims = (none,)}
    %y = load %A[%c] {shape = (), dims = (none,)} : f32
    store %A[%d], %y {dims = (none,)}
    %i = iota {shape = (32,), dim = 0} : tile<32xi32>
    %j = iota {shape = (32,), dim = 0} : tile<32xi32>
    %k = add %i, %j : tile<32xi32>
    store %A[0], 1.0 {dims = (none,)}
    %s = reduce %k {dim = 0, kind = "sum"} : i32
    %t = cast %s {to = f32} : f32
    store %A[1], %t {dims = (none,)}
  }
}
