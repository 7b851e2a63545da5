// The product in flight is carried round with its token and awaited behind the loop; the other one at once. %P begins
// inside of what the swizzle keeps together, which is not for wgmma, and then neither is %e2, of the same accumulator.
// pass: lower_manual_wgmma
// target: sm_90a
tile kernel @k(%A: tensor<64x512xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128, explicit_sync = true} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %P = alloc {type_ = shared<64x96xbf16>} : shared<64x96xbf16>
    %full = barriers {counts = (128,)} : shared<1xu64>
    bulk_load %A[0, 0], %S[0, 0], %full, 0 {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %A[0, 0], %P[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %r, %q, %o = for 0, %n, 1, [%z, %z, %z] : tile<64x64xf32>, tile<64x64xf32>, tile<64x64xf32> (%k: i32, %c: tile<64x64xf32>, %d: tile<64x64xf32>, %e: tile<64x64xf32>) {
      %c1 = gemm %S[0, 0], %S[0, 0], %c {in_flight = true} : tile<64x64xf32>
      wait_gemms {pending = 1}
      %d1 = gemm %S[0, 0], %S[0, 0], %d : tile<64x64xf32>
      %e1 = gemm %S[0, 0], %P[0, 8], %e : tile<64x64xf32>
      %e2 = gemm %S[0, 0], %S[0, 0], %e1 : tile<64x64xf32>
      yield %c1, %d1, %e2
    }
    %all = add %r, %q : tile<64x64xf32>
    %sum = add %all, %o : tile<64x64xf32>
    store %C[0, 0], %sum {dims = (0, 1)}
    yield
  }
}

// ----
tile kernel @k(%A: tensor<64x512xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128, explicit_sync = true} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %P = alloc {type_ = shared<64x96xbf16>} : shared<64x96xbf16>
    %full = barriers {counts = (128,)} : shared<1xu64>
    bulk_load %A[0, 0], %S[0, 0], %full, 0 {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %A[0, 0], %P[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %0 = no_token {counter = "wgmma"} : token<wgmma>
    %r, %q, %o, %1 = for 0, %n, 1, [%z, %z, %z, %0] : tile<64x64xf32>, tile<64x64xf32>, tile<64x64xf32>, token<wgmma> (%k: i32, %c: tile<64x64xf32>, %d: tile<64x64xf32>, %e: tile<64x64xf32>, %flight: token<wgmma>) {
      %c1, %2 = async_gemm %S[0, 0], %S[0, 0], %c {in_flight = true} : tile<64x64xf32>, token<wgmma>
      wait_gemms {pending = 1}
      %d1, %3 = async_gemm %S[0, 0], %S[0, 0], %d : tile<64x64xf32>, token<wgmma>
      %d1_1 = await %d1, %3 : tile<64x64xf32>
      %e1 = gemm %S[0, 0], %P[0, 8], %e : tile<64x64xf32>
      %e2 = gemm %S[0, 0], %S[0, 0], %e1 : tile<64x64xf32>
      yield %c1, %d1_1, %e2, %2
    }
    %r_1 = await %r, %1 : tile<64x64xf32>
    %all = add %r_1, %q : tile<64x64xf32>
    %sum = add %all, %o : tile<64x64xf32>
    store %C[0, 0], %sum {dims = (0, 1)}
    yield
  }
}
