// 1024 threads have 32 registers each where two blocks are to fit: none to keep a tile in.
// pass: reuse_loads
// target: sm_90a
tile kernel @room(%A: tensor<64x65536xf32>, %B: tensor<64x65536xf32>) attrs {threads = 1024} {
  launch 64, 1, 1 {threads = 1024} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %A[%bx, 0] {shape = (32768,), dims = (none, 0)} : tile<32768xf32, layout<32768; reg 4:1@0, 8:4096@0; lane 32:4@0; warp 32:128@0>>
    store %B[%bx, 0], %x {dims = (none, 0)}
    %y = load %A[%bx, 0] {shape = (32768,), dims = (none, 0)} : tile<32768xf32, layout<32768; reg 4:1@0, 8:4096@0; lane 32:4@0; warp 32:128@0>>
    store %B[%bx, 32768], %y {dims = (none, 0)}
  }
}

// ----
tile kernel @room(%A: tensor<64x65536xf32>, %B: tensor<64x65536xf32>) attrs {threads = 1024} {
  launch 64, 1, 1 {threads = 1024} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %A[%bx, 0] {shape = (32768,), dims = (none, 0)} : tile<32768xf32, layout<32768; reg 4:1@0, 8:4096@0; lane 32:4@0; warp 32:128@0>>
    store %B[%bx, 0], %x {dims = (none, 0)}
    %y = load %A[%bx, 0] {shape = (32768,), dims = (none, 0)} : tile<32768xf32, layout<32768; reg 4:1@0, 8:4096@0; lane 32:4@0; warp 32:128@0>>
    store %B[%bx, 32768], %y {dims = (none, 0)}
  }
}
