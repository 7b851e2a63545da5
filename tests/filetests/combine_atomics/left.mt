// Left alone: remainders of other numbers, quotients, an old value that is used, a branch or a loop that differs between
// threads, and integers, which shared memory adds by itself.
// pass: combine_atomics
// target: sm_80
tile kernel @left(%Y: tensor<64xf32>, %x: f32, %n: i32) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<16xf32>} : shared<16xf32>
    %i = alloc {type_ = shared<16xi32>} : shared<16xi32>
    %t = thread_index
    %at = floormod %t, 4 : i32
    %three = floormod %t, 3 : i32
    %0 = atomic %s[%three], %x {dims = (none,)} : f32
    %q = floordiv %t, 4 : i32
    %1 = atomic %s[%q], %x {dims = (none,)} : f32
    %old = atomic %s[%at], %x {dims = (none,)} : f32
    store %Y[%t], %old {dims = (none,)}
    %some = cmp %t, 17 {predicate = "lt"} : bool
    if %some then {
      %2 = atomic %s[%at], %x {dims = (none,)} : f32
      yield
    } orelse {
      yield
    }
    for 0, %t, 1 (%k: i32) {
      %3 = atomic %s[%at], %x {dims = (none,)} : f32
      yield
    }
    %4 = atomic %i[%at], %n {dims = (none,)} : i32
    yield
  }
}

// ----
tile kernel @left(%Y: tensor<64xf32>, %x: f32, %n: i32) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<16xf32>} : shared<16xf32>
    %i = alloc {type_ = shared<16xi32>} : shared<16xi32>
    %t = thread_index : i32
    %at = floormod %t, 4 : i32
    %three = floormod %t, 3 : i32
    %0 = atomic %s[%three], %x {dims = (none,)} : f32
    %q = floordiv %t, 4 : i32
    %1 = atomic %s[%q], %x {dims = (none,)} : f32
    %old = atomic %s[%at], %x {dims = (none,)} : f32
    store %Y[%t], %old {dims = (none,)}
    %some = cmp %t, 17 {predicate = "lt"} : bool
    if %some then {
      %2 = atomic %s[%at], %x {dims = (none,)} : f32
      yield
    } orelse {
      yield
    }
    for 0, %t, 1 (%k: i32) {
      %3 = atomic %s[%at], %x {dims = (none,)} : f32
      yield
    }
    %4 = atomic %i[%at], %n {dims = (none,)} : i32
    yield
  }
}
