// A register operand that is unpacked of words, on which nothing else has a claim: its words are loaded where the product
// takes their numbers, four neighbours by a thread, and nothing is converted.
// pass: infer_layouts
// target: sm_80
tile kernel @unpacked(%P: tensor<4x8x4x4xu32>, %C: tensor<64x16xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %Ps = alloc {type_ = shared<4x8x4x4xu32>} : shared<4x8x4x4xu32>
    %As = alloc {type_ = shared<16x64xbf16>} : shared<16x64xbf16>
    %z = splat 0.0 {shape = (64, 16)} : tile<64x16xf32>
    %p = load %Ps[0, 0, 0, 0] {shape = (4, 8, 4, 4), dims = (0, 1, 2, 3)} : tile<4x8x4x4xu32>
    %q = permute %p {order = (0, 1, 3, 2)} : tile<4x8x4x4xu32>
    %h = expand %q {dim = 1, size = 2} : tile<4x2x8x4x4xu32>
    %g = expand %h {dim = 4, size = 2} : tile<4x2x8x4x2x4xu32>
    %m = and %g, 983055:u32 : tile<4x2x8x4x2x4xu32>
    %n = recast %m {to = bf16} : tile<4x2x8x4x2x8xbf16>
    %w = reshape %n {shape = (64, 64)} : tile<64x64xbf16>
    %c = gemm %w, %As[0, 0], %z {transpose_b = true, policy = "full_row"} : tile<64x16xf32>
    store %C[0, 0], %c {dims = (0, 1)}
  }
}

// ----
tile kernel @unpacked(%P: tensor<4x8x4x4xu32>, %C: tensor<64x16xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %Ps = alloc {type_ = shared<4x8x4x4xu32>, layout = shared<4x8x4x4xb32; 4:4096; 8:512; 4:128; 4:32>, bytes = 2048} : shared<4x8x4x4xu32>
    %As = alloc {type_ = shared<16x64xbf16>, layout = shared<16x64xb16; 16:1024; 64:16; swizzle 128>, bytes = 2048} : shared<16x64xbf16>
    %z = splat 0.0 {shape = (64, 16)} : tile<64x16xf32, layout<64x16; reg 2:1@1, 2:8@0, 2:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    %p = load %Ps[0, 0, 0, 0] {shape = (4, 8, 4, 4), dims = (0, 1, 2, 3)} : tile<4x8x4x4xu32, layout<4x8x4x4; reg 4:1@3; lane 4:1@2, 8:1@1; warp 4:1@0>>
    %q = permute %p {order = (0, 1, 3, 2)} : tile<4x8x4x4xu32, layout<4x8x4x4; reg 4:1@2; lane 4:1@3, 8:1@1; warp 4:1@0>>
    %h = expand %q {dim = 1, size = 2} : tile<4x2x8x4x4xu32, layout<4x2x8x4x4; reg 2:1@1, 4:1@3; lane 4:1@4, 8:1@2; warp 4:1@0>>
    %g = expand %h {dim = 4, size = 2} : tile<4x2x8x4x2x4xu32, layout<4x2x8x4x2x4; reg 2:1@1, 2:1@4, 4:1@3; lane 4:1@5, 8:1@2; warp 4:1@0>>
    %m = and %g, 983055:u32 : tile<4x2x8x4x2x4xu32, layout<4x2x8x4x2x4; reg 2:1@1, 2:1@4, 4:1@3; lane 4:1@5, 8:1@2; warp 4:1@0>>
    %n = recast %m {to = bf16} : tile<4x2x8x4x2x8xbf16, layout<4x2x8x4x2x8; reg 2:1@5, 2:1@1, 2:1@4, 4:1@3; lane 4:2@5, 8:1@2; warp 4:1@0>>
    %w = reshape %n {shape = (64, 64)} : tile<64x64xbf16, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    %c = gemm %w, %As[0, 0], %z {transpose_b = true, policy = "full_row"} : tile<64x16xf32, layout<64x16; reg 2:1@1, 2:8@0, 2:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    store %C[0, 0], %c {dims = (0, 1)}
  }
}
