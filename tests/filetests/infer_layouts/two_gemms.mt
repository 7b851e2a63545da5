// Two accumulators of different splits meet in an addition: one conversion, at the addition.
// pass: infer_layouts
// target: sm_80
tile kernel @two(%C: tensor<64x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xbf16>} : shared<64x32xbf16>
    %Bs = alloc {type_ = shared<64x32xbf16>} : shared<64x32xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %c = gemm %As[0, 0], %Bs[0, 0], %z {transpose_b = true, policy = "full_row"} : tile<64x64xf32>
    %d = gemm %As[0, 0], %Bs[0, 0], %z {transpose_b = true, policy = "full_col"} : tile<64x64xf32>
    %e = add %c, %d : tile<64x64xf32>
    store %C[0, 0], %e {dims = (0, 1)}
  }
}

// ----
tile kernel @two(%C: tensor<64x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xbf16>, layout = shared<64x32xb16; 64:512; 32:16; swizzle 64>, bytes = 4096} : shared<64x32xbf16>
    %Bs = alloc {type_ = shared<64x32xbf16>, layout = shared<64x32xb16; 64:512; 32:16; swizzle 64>, bytes = 4096} : shared<64x32xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    %c = gemm %As[0, 0], %Bs[0, 0], %z {transpose_b = true, policy = "full_row"} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    %z_1 = splat 0.0 {shape = (64, 64)} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 2:8@1, 4:16@0; lane 4:2@1, 8:1@0; warp 4:16@1>>
    %d = gemm %As[0, 0], %Bs[0, 0], %z_1 {transpose_b = true, policy = "full_col"} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 2:8@1, 4:16@0; lane 4:2@1, 8:1@0; warp 4:16@1>>
    %d_1 = convert_layout %d {layout = layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    %e = add %c, %d_1 : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    store %C[0, 0], %e {dims = (0, 1)}
  }
}
