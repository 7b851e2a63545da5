// pass: simplify
// What is assumed is known before, and is still said behind.
tile kernel @assume(%A: tensor<64xi32>, %n: i32) dims() {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %c = cmp %n, 0 {predicate = "ge"}
    %d = cmp %n, 64 {predicate = "lt"}
    %e = and %c, %d
    assume %e
    %m = max %n, 0
    %i = cmp %m, 64 {predicate = "lt"}
    %j = cast %i {to = i32}
    store %A[%m], %j {dims = (none,)}
  }
}

// ----
tile kernel @assume(%A: tensor<64xi32>, %n: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %c = cmp %n, 0 {predicate = "ge"} : bool
    %d = cmp %n, 64 {predicate = "lt"} : bool
    %e = and %c, %d : bool
    assume %e
    store %A[%n], 1 {dims = (none,)}
  }
}
