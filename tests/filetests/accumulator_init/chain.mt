// Two products of a turn, in sequence: the first one begins the sum, the second adds. The loop has turns (its
// bounds are constants), so nothing has to be known behind it.
// pass: accumulator_init
// target: sm_90a
tile kernel @chain(%C: tensor<64x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %A = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %none = no_token {counter = "wgmma"} : token<wgmma>
    %r, %t = for 3, 9, 2, [%z, %none] : tile<64x64xf32>, token<wgmma> (%k: i32, %c: tile<64x64xf32>, %before: token<wgmma>) {
      %f, %t1 = async_gemm %A[0, 0], %A[0, 0], %c : tile<64x64xf32>, token<wgmma>
      %g, %t2 = async_gemm %A[0, 0], %A[0, 0], %f : tile<64x64xf32>, token<wgmma>
      wait %before
      yield %g, %t2
    }
    %a = await %r, %t : tile<64x64xf32>
    store %C[0, 0], %a {dims = (0, 1)}
  }
}

// ----
tile kernel @chain(%C: tensor<64x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %A = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %none = no_token {counter = "wgmma"} : token<wgmma>
    %0 = unset {shape = (64, 64), dtype = f32} : tile<64x64xf32>
    %r, %t = for 3, 9, 2, [%0, %none] : tile<64x64xf32>, token<wgmma> (%k: i32, %c: tile<64x64xf32>, %before: token<wgmma>) {
      %1 = cmp %k, 3 {predicate = "ne"} : bool
      %f, %t1 = async_gemm %A[0, 0], %A[0, 0], %c, scale_d = %1 : tile<64x64xf32>, token<wgmma>
      %g, %t2 = async_gemm %A[0, 0], %A[0, 0], %f : tile<64x64xf32>, token<wgmma>
      wait %before
      yield %g, %t2
    }
    %a = await %r, %t : tile<64x64xf32>
    store %C[0, 0], %a {dims = (0, 1)}
  }
}
