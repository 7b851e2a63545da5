// Loaded by rows and stored by columns, four f32 each way: a thread holds squares, and nothing is exchanged.
// pass: infer_layouts
// target: sm_80
tile kernel @turn(%A: tensor<MxNxf32>, %B: tensor<NxMxf32>) dims(M = %M: i32, N = %N: i32) facts {M = 16, N = 16} attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0, 0] {shape = (64, 32), dims = (0, 1)} : tile<64x32xf32>
    store %B[0, 0], %a {dims = (1, 0)}
  }
}

// ----
tile kernel @turn(%A: tensor<MxNxf32>, %B: tensor<NxMxf32>) dims(M = %M: i32, N = %N: i32) facts {M = 16, N = 16} attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0, 0] {shape = (64, 32), dims = (0, 1)} : tile<64x32xf32, layout<64x32; reg 4:1@1, 4:1@0; lane 8:4@1, 4:4@0; warp 4:16@0>>
    store %B[0, 0], %a {dims = (1, 0)}
  }
}
