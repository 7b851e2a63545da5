// The accumulator of one gemm, narrowed, is the register operand of the next one: no conversion.
// pass: infer_layouts
// target: sm_80
tile kernel @chain(%C: tensor<64x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xbf16>} : shared<64x32xbf16>
    %Bs = alloc {type_ = shared<64x32xbf16>} : shared<64x32xbf16>
    %Vs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %s = gemm %As[0, 0], %Bs[0, 0], %z {transpose_b = true, policy = "full_row"} : tile<64x64xf32>
    %p = cast %s {to = bf16} : tile<64x64xbf16>
    %o = gemm %p, %Vs[0, 0], %z {policy = "full_row"} : tile<64x64xf32>
    store %C[0, 0], %o {dims = (0, 1)}
  }
}

// ----
tile kernel @chain(%C: tensor<64x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xbf16>, layout = shared<64x32xb16; 64:512; 32:16; swizzle 64>, bytes = 4096} : shared<64x32xbf16>
    %Bs = alloc {type_ = shared<64x32xbf16>, layout = shared<64x32xb16; 64:512; 32:16; swizzle 64>, bytes = 4096} : shared<64x32xbf16>
    %Vs = alloc {type_ = shared<64x64xbf16>, layout = shared<64x64xb16; 64:1024; 64:16; swizzle 128>, bytes = 8192} : shared<64x64xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    %s = gemm %As[0, 0], %Bs[0, 0], %z {transpose_b = true, policy = "full_row"} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    %p = cast %s {to = bf16} : tile<64x64xbf16, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    %z_1 = splat 0.0 {shape = (64, 64)} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    %o = gemm %p, %Vs[0, 0], %z_1 {policy = "full_row"} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    store %C[0, 0], %o {dims = (0, 1)}
  }
}
