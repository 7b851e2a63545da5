// Where a kernel says shared memory, it is.
// pass: keep_in_registers
// target: sm_80
traced kernel @kept(%X: tensor<64x256xf32>, %Y: tensor<64x256xf32>) attrs {threads = 64} {
  launch 64, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %a = alloc {type_ = shared<1x256xf32>} : shared<1x256xf32>
    copy %X[%bx, 0], %a[0, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %a[0, 0], %Y[%bx, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
    yield
  }
}

// ----
traced kernel @kept(%X: tensor<64x256xf32>, %Y: tensor<64x256xf32>) attrs {threads = 64} {
  launch 64, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %a = alloc {type_ = shared<1x256xf32>} : shared<1x256xf32>
    copy %X[%bx, 0], %a[0, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %a[0, 0], %Y[%bx, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
    yield
  }
}
