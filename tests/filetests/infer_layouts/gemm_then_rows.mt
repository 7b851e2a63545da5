// The accumulator's layout is strict; the row vector's follows as its quotient; nothing is converted.
// pass: infer_layouts
// target: sm_80
tile kernel @rows(%A: tensor<64x32xbf16>, %B: tensor<64x32xbf16>, %C: tensor<64x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xbf16>} : shared<64x32xbf16>
    %Bs = alloc {type_ = shared<64x32xbf16>} : shared<64x32xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %c = gemm %As[0, 0], %Bs[0, 0], %z {transpose_b = true} : tile<64x64xf32>
    %m = reduce %c {dim = 1, kind = "max"} : tile<64xf32>
    %w = expand %m {dim = 1, size = 64} : tile<64x64xf32>
    %d = sub %c, %w : tile<64x64xf32>
    store %C[0, 0], %d {dims = (0, 1)}
  }
}

// ----
tile kernel @rows(%A: tensor<64x32xbf16>, %B: tensor<64x32xbf16>, %C: tensor<64x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xbf16>, layout = shared<64x32xb16; 64:512; 32:16; swizzle 64>, bytes = 4096} : shared<64x32xbf16>
    %Bs = alloc {type_ = shared<64x32xbf16>, layout = shared<64x32xb16; 64:512; 32:16; swizzle 64>, bytes = 4096} : shared<64x32xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 4:8@1, 2:16@0; lane 4:2@1, 8:1@0; warp 2:32@0, 2:32@1>>
    %c = gemm %As[0, 0], %Bs[0, 0], %z {transpose_b = true} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 4:8@1, 2:16@0; lane 4:2@1, 8:1@0; warp 2:32@0, 2:32@1>>
    %m = reduce %c {dim = 1, kind = "max"} : tile<64xf32, layout<64; reg 4:8@0; lane 4:*, 8:1@0; warp 2:32@0, 2:*>>
    %w = expand %m {dim = 1, size = 64} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 4:8@1, 2:16@0; lane 4:2@1, 8:1@0; warp 2:32@0, 2:32@1>>
    %d = sub %c, %w : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 4:8@1, 2:16@0; lane 4:2@1, 8:1@0; warp 2:32@0, 2:32@1>>
    store %C[0, 0], %d {dims = (0, 1)}
  }
}
