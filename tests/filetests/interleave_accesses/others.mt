// Quarters of groups of four, from a place that the program says. Other indices stay: steps of 3, masks, a step along
// rows; and a store without its other part.
// pass: interleave_accesses
// target: sm_90a
tile kernel @parts(%X: tensor<MxNxf32>, %Y: tensor<MxNxf32>, %n: i32) dims(M = %M: i32, N = %N: i32) attrs {threads = 32} {
  launch %M, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %j = iota {shape = (64,), dim = 0} : tile<64xi32>
    %four = mul %j, 4 : tile<64xi32>
    %moved = add %four, %n : tile<64xi32>
    %third = add %moved, 3 : tile<64xi32>
    %a = load %X[%bx, %third] {shape = (64,), dims = (none, none)} : tile<64xf32>
    %three = mul %j, 3 : tile<64xi32>
    %b = load %X[%bx, %three] {shape = (64,), dims = (none, none)} : tile<64xf32>
    %two = mul %j, 2 : tile<64xi32>
    %in = cmp %j, %n {predicate = "lt"} : tile<64xbool>
    %c = load %X[%bx, %two], mask = %in {shape = (64,), dims = (none, none)} : tile<64xf32>
    %d = load %X[%two, 0] {shape = (64,), dims = (none, none)} : tile<64xf32>
    %ab = add %a, %b : tile<64xf32>
    %cd = add %c, %d : tile<64xf32>
    %all = add %ab, %cd : tile<64xf32>
    store %Y[%bx, %two], %all {dims = (none, none)}
  }
}

// ----
tile kernel @parts(%X: tensor<MxNxf32>, %Y: tensor<MxNxf32>, %n: i32) dims(M = %M: i32, N = %N: i32) attrs {threads = 32} {
  launch %M, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %j = iota {shape = (64,), dim = 0} : tile<64xi32>
    %0 = load %X[%bx, %n] {shape = (256,), dims = (none, 0)} : tile<256xf32>
    %a = interleaved_slice %0 {dim = 0, run = 1, count = 4, index = 3} : tile<64xf32>
    %three = mul %j, 3 : tile<64xi32>
    %b = load %X[%bx, %three] {shape = (64,), dims = (none, none)} : tile<64xf32>
    %two = mul %j, 2 : tile<64xi32>
    %in = cmp %j, %n {predicate = "lt"} : tile<64xbool>
    %c = load %X[%bx, %two], mask = %in {shape = (64,), dims = (none, none)} : tile<64xf32>
    %d = load %X[%two, 0] {shape = (64,), dims = (none, none)} : tile<64xf32>
    %ab = add %a, %b : tile<64xf32>
    %cd = add %c, %d : tile<64xf32>
    %all = add %ab, %cd : tile<64xf32>
    store %Y[%bx, %two], %all {dims = (none, none)}
  }
}
