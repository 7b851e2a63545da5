// The next turn's row is on its way while this one's is used; one at a place that is carried is not.
// pass: hoist_loads
// target: sm_80
tile kernel @loop(%X: tensor<MxNxf32>, %Y: tensor<Mxf32>) dims(M = %M: i32, N = %N: i32) facts {N = 8} attrs {threads = 128} {
  launch %M, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %z = splat 0.0 {shape = (512,)} : tile<512xf32>
    %n = floordiv %N, 512 : i32
    %r, %t = for 0, %n, 1, [%z, %bx] (%k: i32, %c: tile<512xf32>, %p: i32) {
      %at = mul %k, 512 : i32
      %x = load %X[%bx, %at] {shape = (512,), dims = (none, 0)} : tile<512xf32>
      %y = load %X[%p, %at] {shape = (512,), dims = (none, 0)} : tile<512xf32>
      %d = mul %x, %y : tile<512xf32>
      %e = add %c, %d : tile<512xf32>
      %q = add %p, 1 : i32
      yield %e, %q
    }
    %s = reduce %r {dim = 0, kind = "sum"} : f32
    store %Y[%bx], %s {dims = (none,)}
  }
}

// ----
tile kernel @loop(%X: tensor<MxNxf32>, %Y: tensor<Mxf32>) dims(M = %M: i32, N = %N: i32) facts {N = 8} attrs {threads = 128} {
  launch %M, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %z = splat 0.0 {shape = (512,)} : tile<512xf32>
    %n = floordiv %N, 512 : i32
    %0 = cmp 0, %n {predicate = "lt"} : bool
    %1 = if %0 : tile<512xf32> then {
      %at = mul 0, 512 : i32
      %x = load %X[%bx, %at] {shape = (512,), dims = (none, 0)} : tile<512xf32>
      yield %x
    } orelse {
      %2 = splat 0.0 {shape = (512,)} : tile<512xf32>
      yield %2
    }
    %r, %t, %3 = for 0, %n, 1, [%z, %bx, %1] : tile<512xf32>, i32, tile<512xf32> (%k: i32, %c: tile<512xf32>, %p: i32, %x_1: tile<512xf32>) {
      %4 = add %k, 1 : i32
      %5 = cmp %4, %n {predicate = "lt"} : bool
      %6 = if %5 : tile<512xf32> then {
        %at_1 = mul %4, 512 : i32
        %x_2 = load %X[%bx, %at_1] {shape = (512,), dims = (none, 0)} : tile<512xf32>
        yield %x_2
      } orelse {
        %7 = splat 0.0 {shape = (512,)} : tile<512xf32>
        yield %7
      }
      %at_2 = mul %k, 512 : i32
      %y = load %X[%p, %at_2] {shape = (512,), dims = (none, 0)} : tile<512xf32>
      %d = mul %x_1, %y : tile<512xf32>
      %e = add %c, %d : tile<512xf32>
      %q = add %p, 1 : i32
      yield %e, %q, %6
    }
    %s = reduce %r {dim = 0, kind = "sum"} : f32
    store %Y[%bx], %s {dims = (none,)}
  }
}
