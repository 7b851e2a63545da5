// What a loop of several stages copies is under way while another version is used: it stays. What one of one stage does
// not.
// pass: keep_in_registers
// target: sm_80
traced kernel @stages(%X: tensor<64x256xf32>, %Y: tensor<64x256xf32>) attrs {threads = 64, resources_are_hints = true} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %a = alloc {type_ = shared<1x256xf32>} : shared<1x256xf32>
    %b = alloc {type_ = shared<1x256xf32>} : shared<1x256xf32>
    for 0, 64, 1 {kind = "pipelined", stages = 2} (%k: i32) {
      copy %X[%k, 0], %a[0, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %a[0, 0], %Y[%k, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
      yield
    }
    for 0, 64, 1 {kind = "pipelined", stages = 1} (%m: i32) {
      copy %X[%m, 0], %b[0, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %b[0, 0], %Y[%m, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
      yield
    }
    yield
  }
}

// ----
traced kernel @stages(%X: tensor<64x256xf32>, %Y: tensor<64x256xf32>) attrs {threads = 64, resources_are_hints = true} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %a = alloc {type_ = shared<1x256xf32>} : shared<1x256xf32>
    %b = alloc {type_ = fragment<1x256xf32>} : fragment<1x256xf32>
    for 0, 64, 1 {kind = "pipelined", stages = 2} (%k: i32) {
      copy %X[%k, 0], %a[0, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %a[0, 0], %Y[%k, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
      yield
    }
    for 0, 64, 1 {kind = "pipelined"} (%m: i32) {
      copy %X[%m, 0], %b[0, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %b[0, 0], %Y[%m, 0] {shape = (1, 256), src_dims = (0, 1), dst_dims = (0, 1)}
      yield
    }
    yield
  }
}
