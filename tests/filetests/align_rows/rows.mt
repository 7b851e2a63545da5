// Each row of the tile begins elsewhere: the index and the weight, the same of all rows, are written again for each.
// The mask says what the bounds say.
// pass: align_rows
// target: sm_90a
tile kernel @rows(%X: tensor<MxNxbf16>, %W: tensor<Nxbf16>, %Y: tensor<MxNxbf16>) dims(M = %M: i32, N = %N: i32) attrs {threads = 64} {
  launch %M, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %first = mul %bx, 2 : i32
    %j = iota {shape = (64,), dim = 0} : tile<64xi32>
    %in1 = cmp %j, %N {predicate = "lt"} : tile<64xbool>
    %in = expand %in1 {dim = 0, size = 2} : tile<2x64xbool>
    %x = load %X[%first, 0], mask = %in {shape = (2, 64), dims = (0, 1)} : tile<2x64xbf16>
    %w1 = load %W[0] {shape = (64,), dims = (0,)} : tile<64xbf16>
    %w = expand %w1 {dim = 0, size = 2} : tile<2x64xbf16>
    %y = mul %x, %w : tile<2x64xbf16>
    %z = select %in, %y, %x : tile<2x64xbf16>
    store %Y[%first, 0], %z {dims = (0, 1)}
  }
}

// ----
tile kernel @rows(%X: tensor<MxNxbf16>, %W: tensor<Nxbf16>, %Y: tensor<MxNxbf16>) dims(M = %M: i32, N = %N: i32) attrs {threads = 64} {
  launch %M, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %first = mul %bx, 2 : i32
    %0 = floormod %N, 8 : i32
    %1 = mul 2, %0 : i32
    %2 = floormod %bx, 8 : i32
    %3 = mul %1, %2 : i32
    %4 = iota {shape = (2,), dim = 0} : tile<2xi32>
    %5 = floormod %N, 8 : i32
    %6 = mul %4, %5 : tile<2xi32>
    %7 = add %6, %3 : tile<2xi32>
    %shift = floormod %7, 8 : tile<2xi32>
    %j = rotated_iota %shift {shape = (2, 64), dim = 1} : tile<2x64xi32>
    %in1 = cmp %j, %N {predicate = "lt"} : tile<2x64xbool>
    %x = load %X[%first, 0], shift = %shift {shape = (2, 64), dims = (0, 1), vector = 8} : tile<2x64xbf16>
    %w = load %W[0], shift = %shift {shape = (2, 64), dims = (1,)} : tile<2x64xbf16>
    %y = mul %x, %w : tile<2x64xbf16>
    %z = select %in1, %y, %x : tile<2x64xbf16>
    store %Y[%first, 0], %z, shift = %shift {dims = (0, 1), vector = 8}
  }
}
