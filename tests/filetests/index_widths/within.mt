// Tiles that are numbered otherwise: one condition for all on the way, and nothing is left of `within`.
// pass: index_widths
traced kernel @numbered(%A: tensor<MxNxf32>) dims(M = %M: i32, N = %N: i32) {
  launch %N, %M, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %0 = mul %by, %N : i32
    %1 = add %0, %bx : i32
    %2 = floordiv %1, %M : i32
    %3 = mul %2, %M : i32
    %4 = sub %1, %3 : i32
    %5 = mul %M, %N : i32
    %6 = sub %M, 1 : i32
    %7 = within %4, %6, %5, [%bx, %by, %M, %N] : i32
    store %A[%7, 0], 0.0 {dims = (none, none)}
    yield
  }
}

// ----
traced kernel @numbered(%A: tensor<MxNxf32>) dims(M = %M: i32, N = %N: i32) attrs {fits = (("less", ("mul", ("dim", "M"), ("dim", "N")), 1609564161),)} {
  launch %N, %M, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %0 = mul %by, %N : i32
    %1 = add %0, %bx : i32
    %2 = floordiv %1, %M : i32
    %3 = mul %2, %M : i32
    %4 = sub %1, %3 : i32
    store %A[%4, 0], 0.0 {dims = (none, none)}
    yield
  }
}
