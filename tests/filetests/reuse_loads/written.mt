// Of a tensor that the kernel writes every load stays.
// pass: reuse_loads
// target: sm_90a
tile kernel @written(%A: tensor<64x1024xf32>) attrs {threads = 128} {
  launch 64, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %A[%bx, 0] {shape = (512,), dims = (none, 0)} : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    store %A[%bx, 512], %x {dims = (none, 0)}
    %y = load %A[%bx, 0] {shape = (512,), dims = (none, 0)} : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    store %A[%bx, 256], %y {dims = (none, 0)}
  }
}

// ----
tile kernel @written(%A: tensor<64x1024xf32>) attrs {threads = 128} {
  launch 64, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %A[%bx, 0] {shape = (512,), dims = (none, 0)} : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    store %A[%bx, 512], %x {dims = (none, 0)}
    %y = load %A[%bx, 0] {shape = (512,), dims = (none, 0)} : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    store %A[%bx, 256], %y {dims = (none, 0)}
  }
}
