// Barriers come first, in front of all other storage; waits for both phases, or for the phase of the iteration's number,
// are right for a barrier of a loop, and so is one phase where the loop has one iteration.
// pass: hoist_storage
// target: sm_90a
traced kernel @barriers(%A: tensor<64x64xf16>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
    for 0, %n, 1 {kind = "serial"} (%t: i32) {
      %both = barriers {counts = (128,)} : shared<1xu64>
      barrier_arrive %both, 0
      barrier_wait %both, 0, 0
      barrier_arrive %both, 0
      barrier_wait %both, 0, 1
      %turn = barriers {counts = (128,)} : shared<1xu64>
      %parity = floormod %t, 2
      barrier_arrive %turn, 0
      barrier_wait %turn, 0, %parity
      yield
    }
    for 0, 1, 1 {kind = "serial"} (%once: i32) {
      %b = barriers {counts = (128,)} : shared<1xu64>
      barrier_arrive %b, 0
      barrier_wait %b, 0, 0
      yield
    }
    copy %A[0, 0], %s[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    yield
  }
}

// ----
traced kernel @barriers(%A: tensor<64x64xf16>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %both = barriers {counts = (128,)} : shared<1xu64>
    %turn = barriers {counts = (128,)} : shared<1xu64>
    %b = barriers {counts = (128,)} : shared<1xu64>
    %s = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
    for 0, %n, 1 (%t: i32) {
      barrier_arrive %both, 0
      barrier_wait %both, 0, 0
      barrier_arrive %both, 0
      barrier_wait %both, 0, 1
      %parity = floormod %t, 2 : i32
      barrier_arrive %turn, 0
      barrier_wait %turn, 0, %parity
      yield
    }
    for 0, 1, 1 (%once: i32) {
      barrier_arrive %b, 0
      barrier_wait %b, 0, 0
      yield
    }
    copy %A[0, 0], %s[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    yield
  }
}
