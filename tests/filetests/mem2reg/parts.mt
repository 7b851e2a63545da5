// pass: mem2reg
// A part of a fragment is read by slice, one index of it by select and reduce; writing one is a select.
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %F = alloc {type_ = fragment<32x16xf32>}
    %L = alloc {type_ = local<2xf32>}
    fill %F[0, 0], 0.0 {shape = (32, 16), dims = (0, 1)}
    copy %A[%n, 0], %F[16, 0] {shape = (16, 16), src_dims = (0, 1), dst_dims = (0, 1)}
    %x = load %F[0, %n] {shape = (32,), dims = (0, none)}
    store %A[0, 40], %x {dims = (0, none)}
    store %L[1], 2.0 {dims = (none,)}
    %y = load %L[1] {shape = (), dims = (none,)}
    store %F[%n, 3], %y {dims = (none, none)}
    copy %F[0, 8], %A[0, 0] {shape = (16, 8), src_dims = (0, 1), dst_dims = (0, 1)}
  }
}

// ----
tile kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %F = splat 0.0 {shape = (32, 16)} : tile<32x16xf32>
    %0 = sub %n, 16 : i32
    %1 = iota {shape = (32, 16), dim = 0} : tile<32x16xi32>
    %2 = cmp %1, 16 {predicate = "ge"} : tile<32x16xbool>
    %3 = cmp %1, 32 {predicate = "lt"} : tile<32x16xbool>
    %4 = and %2, %3 : tile<32x16xbool>
    %5 = load %A[%0, 0], mask = %4 {shape = (32, 16), dims = (0, 1)} : tile<32x16xf32>
    %F_1 = select %4, %5, %F : tile<32x16xf32>
    %6 = iota {shape = (32, 16), dim = 1} : tile<32x16xi32>
    %7 = cmp %6, %n {predicate = "eq"} : tile<32x16xbool>
    %8 = select %7, %F_1, 0.0 : tile<32x16xf32>
    %x = reduce %8 {dim = 1, kind = "sum"} : tile<32xf32>
    store %A[0, 40], %x {dims = (0, none)}
    %F_2 = insert %F_1, 2.0[%n, 3] : tile<32x16xf32>
    %9 = slice %F_2 {offsets = (0, 8), shape = (16, 8)} : tile<16x8xf32>
    store %A[0, 0], %9 {dims = (0, 1)}
  }
}
