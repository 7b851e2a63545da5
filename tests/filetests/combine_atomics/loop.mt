// In a loop that all threads go through, to a place that is the same for all of them.
// pass: combine_atomics
// target: sm_90a
tile kernel @loop(%Y: tensor<64xf32>, %x: f32, %n: i32) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    for 0, %n, 1 (%k: i32) {
      %0 = atomic %Y[%bx], %x {dims = (none,)} : f32
      yield
    }
    yield
  }
}

// ----
tile kernel @loop(%Y: tensor<64xf32>, %x: f32, %n: i32) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    for 0, %n, 1 (%k: i32) {
      %0 = shuffle %x, 16 {kind = "bfly"} : f32
      %1 = add %x, %0 : f32
      %2 = shuffle %1, 8 {kind = "bfly"} : f32
      %3 = add %1, %2 : f32
      %4 = shuffle %3, 4 {kind = "bfly"} : f32
      %5 = add %3, %4 : f32
      %6 = shuffle %5, 2 {kind = "bfly"} : f32
      %7 = add %5, %6 : f32
      %8 = shuffle %7, 1 {kind = "bfly"} : f32
      %9 = add %7, %8 : f32
      %10 = thread_index : i32
      %11 = floormod %10, 32 : i32
      %12 = cmp %11, 1 {predicate = "lt"} : bool
      if %12 then {
        %13 = atomic %Y[%bx], %9 {dims = (none,)} : f32
        yield
      } orelse {
        yield
      }
      yield
    }
    yield
  }
}
