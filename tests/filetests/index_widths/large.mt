// Blocks of 2^28 bytes of a tensor that may have more than 32 bits count: in 64, and what fits again in 32.
// pass: index_widths
traced kernel @mark(%A: tensor<Nxf32>) dims(N = %N: i32) attrs {large = ("N",)} {
  %0 = add %N, 268435455 : i32
  %1 = floordiv %0, 268435456 : i32
  launch %1, 1, 1 {threads = 32} (%b: i32, %by: i32, %bz: i32) {
    parallel {extents = (32,)} (%j: i32) {
      %2 = mul %b, 268435456 : i32
      %3 = add %2, %j : i32
      store %A[%3], 7.0 {dims = (none,)}
      %4 = floormod %3, 32 : i32
      %5 = cast %4 {to = f32} : f32
      store %A[%4], %5 {dims = (none,)}
      yield
    }
    yield
  }
}

// ----
traced kernel @mark(%A: tensor<Nxf32>) dims(N = %N: i64) attrs {large = ("N",), wide = true} {
  %0 = add %N, 268435455:i64 : i64
  %1 = floordiv %0, 268435456:i64 : i64
  %2 = cast %1 {to = i32} : i32
  launch %2, 1, 1 {threads = 32} (%b: i32, %by: i32, %bz: i32) {
    parallel {extents = (32,)} (%j: i32) {
      %3 = cast %b {to = i64} : i64
      %4 = mul %3, 268435456:i64 : i64
      %5 = cast %j {to = i64} : i64
      %6 = add %4, %5 : i64
      store %A[%6], 7.0 {dims = (none,)}
      %7 = floormod %6, 32:i64 : i64
      %8 = cast %7 {to = i32} : i32
      %9 = cast %8 {to = f32} : f32
      store %A[%7], %9 {dims = (none,)}
      yield
    }
    yield
  }
}
