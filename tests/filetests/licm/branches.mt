// pass: licm
// Out of a loop an operation leaves the branches on the way as well; out of a branch alone, in front of which no loop is
// left, it does not move, and neither does what a loop's own values are needed for.
tile kernel @branches(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %some = cmp %n, 4 {predicate = "gt"}
    if %some then {
      %here = mul %bx, 3
      store %A[%here, 0], 1.0 {dims = (none, none)}
    } orelse {
    }
    for 0, %n, 1 (%i: i32) {
      %odd = and %i, 1
      %is = cmp %odd, 1 {predicate = "eq"}
      if %is then {
        %there = mul %by, 5
        %mine = add %there, %i
        store %A[%there, %mine], 2.0 {dims = (none, none)}
      } orelse {
      }
    }
  }
}

// ----
tile kernel @branches(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %some = cmp %n, 4 {predicate = "gt"} : bool
    if %some then {
      %here = mul %bx, 3 : i32
      store %A[%here, 0], 1.0 {dims = (none, none)}
    } orelse {
    }
    %there = mul %by, 5 : i32
    for 0, %n, 1 (%i: i32) {
      %odd = and %i, 1 : i32
      %is = cmp %odd, 1 {predicate = "eq"} : bool
      if %is then {
        %mine = add %there, %i : i32
        store %A[%there, %mine], 2.0 {dims = (none, none)}
      } orelse {
      }
    }
  }
}
