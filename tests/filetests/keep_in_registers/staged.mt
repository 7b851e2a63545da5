// Of what is staged in shared memory, a is read and written where each thread's own elements are; b is read reversed.
// pass: keep_in_registers
// target: sm_80
traced kernel @staged(%X: tensor<64x256xf32>, %Y: tensor<64x256xf32>) attrs {threads = 64, resources_are_hints = true} {
  launch 64, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %a = alloc {type_ = shared<1x256xf32>} : shared<1x256xf32>
    %b = alloc {type_ = shared<1x256xf32>} : shared<1x256xf32>
    copy %X[%bx, 0], %a[0, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %X[%bx, 0], %b[0, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
    parallel {extents = (1, 256)} (%i: i32, %j: i32) {
      %0 = load %a[%i, %j] {shape = (), dims = (none, none)} : f32
      %1 = sub 255, %j : i32
      %2 = load %b[%i, %1] {shape = (), dims = (none, none)} : f32
      %3 = add %0, %2 : f32
      store %a[%i, %j], %3 {dims = (none, none)}
      yield
    }
    copy %a[0, 0], %Y[%bx, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
    yield
  }
}

// ----
traced kernel @staged(%X: tensor<64x256xf32>, %Y: tensor<64x256xf32>) attrs {threads = 64, resources_are_hints = true} {
  launch 64, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %a = alloc {type_ = fragment<1x256xf32>} : fragment<1x256xf32>
    %b = alloc {type_ = shared<1x256xf32>} : shared<1x256xf32>
    copy %X[%bx, 0], %a[0, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %X[%bx, 0], %b[0, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
    parallel {extents = (1, 256)} (%i: i32, %j: i32) {
      %0 = load %a[%i, %j] {shape = (), dims = (none, none)} : f32
      %1 = sub 255, %j : i32
      %2 = load %b[%i, %1] {shape = (), dims = (none, none)} : f32
      %3 = add %0, %2 : f32
      store %a[%i, %j], %3 {dims = (none, none)}
      yield
    }
    copy %a[0, 0], %Y[%bx, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
    yield
  }
}
