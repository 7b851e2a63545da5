// A loop carries what is rotated; pieces of a row begin as it does, their starts being multiples of the vector. The tile
// of f32 is rotated by as many elements as that of bf16.
// pass: align_rows
// target: sm_80
tile kernel @running(%X: tensor<MxNxbf16>, %Y: tensor<MxNxf32>) dims(M = %M: i32, N = %N: i32) attrs {threads = 32} {
  launch %M, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %zero = splat 0.0 {shape = (64,)} : tile<64xf32>
    %n = add %N, 63 : i32
    %trips = floordiv %n, 64 : i32
    %last = for 0, %trips, 1, [%zero] : tile<64xf32> (%k: i32, %sum: tile<64xf32>) {
      %at = mul %k, 64 : i32
      %x = load %X[%bx, %at] {shape = (64,), dims = (none, 0)} : tile<64xbf16>
      %wide = cast %x {to = f32} : tile<64xf32>
      %more = add %sum, %wide : tile<64xf32>
      yield %more
    }
    store %Y[%bx, 0], %last {dims = (none, 0)}
  }
}

// ----
tile kernel @running(%X: tensor<MxNxbf16>, %Y: tensor<MxNxf32>) dims(M = %M: i32, N = %N: i32) attrs {threads = 32} {
  launch %M, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %zero = splat 0.0 {shape = (64,)} : tile<64xf32>
    %n = add %N, 63 : i32
    %trips = floordiv %n, 64 : i32
    %last = for 0, %trips, 1, [%zero] : tile<64xf32> (%k: i32, %sum: tile<64xf32>) {
      %at = mul %k, 64 : i32
      %0 = floormod %N, 8 : i32
      %1 = floormod %bx, 8 : i32
      %2 = mul %0, %1 : i32
      %shift = floormod %2, 8 : i32
      %x = load %X[%bx, %at], shift = %shift {shape = (64,), dims = (none, 0), vector = 8} : tile<64xbf16>
      %wide = cast %x {to = f32} : tile<64xf32>
      %more = add %sum, %wide : tile<64xf32>
      yield %more
    }
    %3 = floormod %N, 8 : i32
    %4 = floormod %bx, 8 : i32
    %5 = mul %3, %4 : i32
    %shift_1 = floormod %5, 8 : i32
    store %Y[%bx, 0], %last, shift = %shift_1 {dims = (none, 0), vector = 8}
  }
}
