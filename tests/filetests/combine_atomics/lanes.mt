// Lanes whose index differs by a remainder add up first; not where the old value is taken, by a quotient or under a
// condition of threads.
// pass: combine_atomics
// target: sm_80
tile kernel @lanes(%Y: tensor<64xf32>, %x: f32, %n: i32) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<16xf32>} : shared<16xf32>
    %t = thread_index
    %u = add %t, %bx : i32
    %m = floormod %u, 4 : i32
    %at = mul %m, 2 : i32
    %0 = atomic %s[%at], %x {dims = (none,)} : f32
    for 0, %n, 1 (%k: i32) {
      %1 = atomic %Y[%bx], %x {dims = (none,)} : f32
      yield
    }
    %q = floordiv %t, 4 : i32
    %2 = atomic %s[%q], %x {dims = (none,)} : f32
    %three = floormod %t, 3 : i32
    %3 = atomic %s[%three], %x {dims = (none,)} : f32
    %old = atomic %s[%at], %x {dims = (none,)} : f32
    store %Y[%t], %old {dims = (none,)}
    %some = cmp %t, 17 {predicate = "lt"} : bool
    if %some then {
      %4 = atomic %s[%at], %x {dims = (none,)} : f32
      yield
    } orelse {
      yield
    }
  }
}

// ----
tile kernel @lanes(%Y: tensor<64xf32>, %x: f32, %n: i32) attrs {threads = 64} {
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
    for 0, %n, 1 (%k: i32) {
      %10 = shuffle %x, 16 {kind = "bfly"} : f32
      %11 = add %x, %10 : f32
      %12 = shuffle %11, 8 {kind = "bfly"} : f32
      %13 = add %11, %12 : f32
      %14 = shuffle %13, 4 {kind = "bfly"} : f32
      %15 = add %13, %14 : f32
      %16 = shuffle %15, 2 {kind = "bfly"} : f32
      %17 = add %15, %16 : f32
      %18 = shuffle %17, 1 {kind = "bfly"} : f32
      %19 = add %17, %18 : f32
      %20 = thread_index : i32
      %21 = floormod %20, 32 : i32
      %22 = cmp %21, 1 {predicate = "lt"} : bool
      if %22 then {
        %23 = atomic %Y[%bx], %19 {dims = (none,)} : f32
        yield
      } orelse {
        yield
      }
      yield
    }
    %q = floordiv %t, 4 : i32
    %24 = atomic %s[%q], %x {dims = (none,)} : f32
    %three = floormod %t, 3 : i32
    %25 = atomic %s[%three], %x {dims = (none,)} : f32
    %old = atomic %s[%at], %x {dims = (none,)} : f32
    store %Y[%t], %old {dims = (none,)}
    %some = cmp %t, 17 {predicate = "lt"} : bool
    if %some then {
      %26 = atomic %s[%at], %x {dims = (none,)} : f32
      yield
    } orelse {
      yield
    }
  }
}
