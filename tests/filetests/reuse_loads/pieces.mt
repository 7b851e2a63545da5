// The second load of the same piece goes; that of another piece, and that under a mask, stay.
// pass: reuse_loads
// target: sm_90a
tile kernel @pieces(%A: tensor<64x1024xf32>, %m: bool, %B: tensor<64x1024xf32>) attrs {threads = 128} {
  launch 64, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %A[%bx, 0] {shape = (512,), dims = (none, 0)} : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    %s = reduce %x {dim = 0, kind = "sum"}
    %0 = mul %bx, 1
    %y = load %A[%0, 0] {shape = (512,), dims = (none, 0)} : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    %z = load %A[%bx, 512] {shape = (512,), dims = (none, 0)} : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    %w = load %A[%bx, 0], mask = %m {shape = (512,), dims = (none, 0)} : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    %1 = add %y, %z
    %2 = add %1, %w
    store %B[%bx, 0], %2 {dims = (none, 0)}
  }
}

// ----
tile kernel @pieces(%A: tensor<64x1024xf32>, %m: bool, %B: tensor<64x1024xf32>) attrs {threads = 128} {
  launch 64, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %A[%bx, 0] {shape = (512,), dims = (none, 0)} : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    %s = reduce %x {dim = 0, kind = "sum"} : f32
    %0 = mul %bx, 1 : i32
    %z = load %A[%bx, 512] {shape = (512,), dims = (none, 0)} : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    %w = load %A[%bx, 0], mask = %m {shape = (512,), dims = (none, 0)} : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    %1 = add %x, %z : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    %2 = add %1, %w : tile<512xf32, layout<512; reg 4:1@0; lane 32:4@0; warp 4:128@0>>
    store %B[%bx, 0], %2 {dims = (none, 0)}
  }
}
