// Products add to %acc, behind the loop: it is neither read nor written while one is in flight, be it one that adds to
// %other.
// pass: sink_wgmma_waits
// target: sm_90a
tile kernel @beside(%A: tensor<64x64xbf16>, %B: tensor<64x64xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %acc, %other = for 0, %n, 1, [%z, %z] : tile<64x64xf32>, tile<64x64xf32> (%i: i32, %acc_1: tile<64x64xf32>, %other_1: tile<64x64xf32>) {
      %f, %t = async_gemm %As[0, 0], %Bs[0, 0], %other_1 : tile<64x64xf32>, token<wgmma>
      %other_2 = await %f, %t : tile<64x64xf32>
      %m = mul %i, %n : i32
      %acc_2 = add %acc_1, 1.0 : tile<64x64xf32>
      yield %acc_2, %other_2
    }
    %g, %u = async_gemm %As[0, 0], %Bs[0, 0], %acc : tile<64x64xf32>, token<wgmma>
    %r = await %g, %u : tile<64x64xf32>
    %sum = add %r, %other : tile<64x64xf32>
    store %C[0, 0], %sum {dims = (0, 1)}
  }
}

// ----
tile kernel @beside(%A: tensor<64x64xbf16>, %B: tensor<64x64xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %acc, %other = for 0, %n, 1, [%z, %z] : tile<64x64xf32>, tile<64x64xf32> (%i: i32, %acc_1: tile<64x64xf32>, %other_1: tile<64x64xf32>) {
      %f, %t = async_gemm %As[0, 0], %Bs[0, 0], %other_1 : tile<64x64xf32>, token<wgmma>
      %m = mul %i, %n : i32
      %other_2 = await %f, %t : tile<64x64xf32>
      %acc_2 = add %acc_1, 1.0 : tile<64x64xf32>
      yield %acc_2, %other_2
    }
    %g, %u = async_gemm %As[0, 0], %Bs[0, 0], %acc : tile<64x64xf32>, token<wgmma>
    %r = await %g, %u : tile<64x64xf32>
    %sum = add %r, %other : tile<64x64xf32>
    store %C[0, 0], %sum {dims = (0, 1)}
  }
}
