// pass: join_accesses
// Shared memory, in the body of a loop and in a branch by itself; what is loaded from a version of a buffer is of that one.
tile kernel @shared(%n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<2 versions x 8x64xf16>}
    %t = thread_index
    %row = floormod %t, 8
    for 0, %n, 1 (%k: i32) {
      %v = floormod %k, 2
      %x0 = load %s[%row, 2], slot = %v {shape = (), dims = (none, none)}
      %x1 = load %s[%row, 3], slot = %v {shape = (), dims = (none, none)}
      %x2 = load %s[%row, 4], slot = 0 {shape = (), dims = (none, none)}
      %p = cmp %k, %t {predicate = "lt"}
      if %p then {
        store %s[%row, 0], %x0, slot = %v {dims = (none, none)}
        store %s[%row, 1], %x1, slot = %v {dims = (none, none)}
        yield
      } orelse {
        yield
      }
      store %s[%row, 2], %x2, slot = %v {dims = (none, none)}
      yield
    }
  }
}

// ----
tile kernel @shared(%n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<2 versions x 8x64xf16>} : shared<2 versions x 8x64xf16>
    %t = thread_index : i32
    %row = floormod %t, 8 : i32
    for 0, %n, 1 (%k: i32) {
      %v = floormod %k, 2 : i32
      %x0, %x1 = load_run %s[%row, 2], slot = %v {count = 2, along = 1} : f16, f16
      %x2 = load %s[%row, 4], slot = 0 {shape = (), dims = (none, none)} : f16
      %p = cmp %k, %t {predicate = "lt"} : bool
      if %p then {
        store_run %s[%row, 0], [%x0, %x1], slot = %v {along = 1}
        yield
      } orelse {
        yield
      }
      store %s[%row, 2], %x2, slot = %v {dims = (none, none)}
      yield
    }
  }
}
