// A product of dimensions and one of a scalar: the launch checks that they fit. What is proved is not checked.
// pass: index_widths
traced kernel @flat(%A: tensor<Pxf32>, %B: tensor<MxNxf32>, %n: i32) dims(P = %P: i32, M = %M: i32, N = %N: i32) {
  %0 = add %N, 127 : i32
  %1 = floordiv %0, 128 : i32
  launch %1, %M, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %2 = mul %bx, 128 : i32
    %3 = mul %by, %N : i32
    %4 = add %2, %3 : i32
    %x = load %B[%by, %2] {shape = (), dims = (none, none)} : f32
    store %A[%4], %x {dims = (none,)}
    %5 = mul %n, 3 : i32
    store %A[%5], %x {dims = (none,)}
    yield
  }
}

// ----
traced kernel @flat(%A: tensor<Pxf32>, %B: tensor<MxNxf32>, %n: i32) dims(P = %P: i32, M = %M: i32, N = %N: i32) attrs {fits = (("less", ("mul", ("dim", "N"), ("sub", ("dim", "M"), 1)), 1609564161), ("less", ("add", ("mul", ("sub", ("floordiv", ("add", ("dim", "N"), 127), 128), 1), 128), ("mul", ("dim", "N"), ("sub", ("dim", "M"), 1))), 1609564161), ("less", ("scalar", "n"), 536521387), ("less", ("sub", 0, ("scalar", "n")), 357564417))} {
  %0 = add %N, 127 : i32
  %1 = floordiv %0, 128 : i32
  launch %1, %M, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %2 = mul %bx, 128 : i32
    %3 = mul %by, %N : i32
    %4 = add %2, %3 : i32
    %x = load %B[%by, %2] {shape = (), dims = (none, none)} : f32
    store %A[%4], %x {dims = (none,)}
    %5 = mul %n, 3 : i32
    store %A[%5], %x {dims = (none,)}
    yield
  }
}
