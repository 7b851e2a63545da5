// A register operand that the loop does not change is converted once, in front of the loop.
// pass: infer_layouts
// target: sm_80
tile kernel @hoisted(%A: tensor<64x64xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %a = load %A[0, 0] {shape = (64, 64), dims = (0, 1)} : tile<64x64xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %r = for 0, %n, 1, [%z] (%k: i32, %c: tile<64x64xf32>) {
      %c1 = gemm %a, %Bs[0, 0], %c {policy = "full_row"} : tile<64x64xf32>
      yield %c1
    }
    store %C[0, 0], %r {dims = (0, 1)}
    store %A[0, 0], %a {dims = (0, 1)}
  }
}

// ----
tile kernel @hoisted(%A: tensor<64x64xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %Bs = alloc {type_ = shared<64x64xbf16>, layout = shared<64x64xb16; 64:1024; 64:16; swizzle 128>, bytes = 8192} : shared<64x64xbf16>
    %a = load %A[0, 0] {shape = (64, 64), dims = (0, 1)} : tile<64x64xbf16, layout<64x64; reg 8:1@1, 4:16@0; lane 8:8@1, 4:1@0; warp 4:4@0>>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    %a_1 = convert_layout %a {layout = layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>} : tile<64x64xbf16, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
    %r = for 0, %n, 1, [%z] : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>> (%k: i32, %c: tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>) {
      %c1 = gemm %a_1, %Bs[0, 0], %c {policy = "full_row"} : tile<64x64xf32, layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>>
      yield %c1
    }
    store %C[0, 0], %r {dims = (0, 1)}
    store %A[0, 0], %a {dims = (0, 1)}
  }
}
