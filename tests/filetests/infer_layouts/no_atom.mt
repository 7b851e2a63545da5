// pass: infer_layouts
// target: sm_80
tile kernel @odd(%C: tensor<24x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<24x32xbf16>} : shared<24x32xbf16>
    %Bs = alloc {type_ = shared<64x32xbf16>} : shared<64x32xbf16>
    %z = splat 0.0 {shape = (24, 64)} : tile<24x64xf32>
    %c = gemm %As[0, 0], %Bs[0, 0], %z {transpose_b = true} : tile<24x64xf32>  // expect-error: 4 warps can't share a 24x64 accumulator
    store %C[0, 0], %c {dims = (0, 1)}
  }
}
