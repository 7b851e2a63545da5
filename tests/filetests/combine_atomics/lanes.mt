// Lanes whose index differs by a remainder add up first.
// pass: combine_atomics
// target: sm_80
tile kernel @lanes(%x: f32) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<16xf32>} : shared<16xf32>
    %t = thread_index
    %u = add %t, %bx : i32
    %m = floormod %u, 4 : i32
    %at = mul %m, 2 : i32
    %0 = atomic %s[%at], %x {dims = (none,)} : f32
    yield
  }
}

// ----
tile kernel @lanes(%x: f32) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<16xf32>} : shared<16xf32>
    %t = thread_index : i32
    %u = add %t, %bx : i32
    %m = floormod %u, 4 : i32
    %at = mul %m, 2 : i32
    %0 = shuffle %x, 16 {kind = "bfly"} : f32
    %1 = add %x, %0 : f32
    %2 = shuffle %1, 8 {kind = "bfly"} : f32
    %3 = add %1, %2 : f32
    %4 = shuffle %3, 4 {kind = "bfly"} : f32
    %5 = add %3, %4 : f32
    %6 = thread_index : i32
    %7 = floormod %6, 32 : i32
    %8 = cmp %7, 4 {predicate = "lt"} : bool
    if %8 then {
      %9 = atomic %s[%at], %5 {dims = (none,)} : f32
      yield
    } orelse {
      yield
    }
    yield
  }
}
