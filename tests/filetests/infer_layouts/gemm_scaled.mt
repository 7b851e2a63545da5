// Scales of blocks are tiles with a layout that the instruction demands; fp4 operands are bytes.
// pass: infer_layouts
// target: gfx950
tile kernel @scaled(%C: tensor<64x64xf32>, %S: tensor<64x8xu8>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x256xe4m3>} : shared<64x256xe4m3>
    %Bs = alloc {type_ = shared<64x128xu8>} : shared<64x128xu8>
    %Ss = alloc {type_ = shared<64x8xu8>} : shared<64x8xu8>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %sa = load %Ss[0, 0] {shape = (64, 8), dims = (0, 1)} : tile<64x8xu8>
    %sb = load %S[0, 0] {shape = (64, 8), dims = (0, 1)} : tile<64x8xu8>
    %c = gemm %As[0, 0], %Bs[0, 0], %z, a_scale = %sa, b_scale = %sb {transpose_b = true, b_format = "e2m1"} : tile<64x64xf32>
    store %C[0, 0], %c {dims = (0, 1)}
  }
}

// ----
tile kernel @scaled(%C: tensor<64x64xf32>, %S: tensor<64x8xu8>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x256xe4m3>, layout = shared<64x256xb8; 64:1024; 128:8, 2:65536; swizzle 128>, bytes = 16384} : shared<64x256xe4m3>
    %Bs = alloc {type_ = shared<64x128xu8>, layout = shared<64x128xb8; 64:1024; 128:8; swizzle 128>, bytes = 8192} : shared<64x128xu8>
    %Ss = alloc {type_ = shared<64x8xu8>, layout = shared<64x8xb8; 64:64; 8:8>, bytes = 512} : shared<64x8xu8>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32, layout<64x64; reg 4:1@1, 4:16@1, 2:16@0; lane 16:1@0, 4:4@1; warp 2:32@0>>
    %sa = load %Ss[0, 0] {shape = (64, 8), dims = (0, 1)} : tile<64x8xu8, layout<64x8; reg 2:4@1, 2:16@0; lane 16:1@0, 4:1@1; warp 2:32@0>>
    %sb = load %S[0, 0] {shape = (64, 8), dims = (0, 1)} : tile<64x8xu8, layout<64x8; reg 2:4@1, 4:16@0; lane 16:1@0, 4:1@1; warp 2:*>>
    %c = gemm %As[0, 0], %Bs[0, 0], %z, a_scale = %sa, b_scale = %sb {transpose_b = true, b_format = "e2m1"} : tile<64x64xf32, layout<64x64; reg 4:1@1, 4:16@1, 2:16@0; lane 16:1@0, 4:4@1; warp 2:32@0>>
    store %C[0, 0], %c {dims = (0, 1)}
  }
}
