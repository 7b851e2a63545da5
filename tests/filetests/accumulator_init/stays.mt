// Accumulators that are cleared as before: one that starts from ones, one whose product a predicate starts already, and
// one that the loop also hands to another operation.
// pass: accumulator_init
// target: sm_90a
tile kernel @stays(%C: tensor<64x64xf32>, %n: i32, %p: bool) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %A = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %one = splat 1.0 {shape = (64, 64)} : tile<64x64xf32>
    %none = no_token {counter = "wgmma"} : token<wgmma>
    %r, %t = for 0, %n, 1, [%one, %none] : tile<64x64xf32>, token<wgmma> (%k: i32, %c: tile<64x64xf32>, %b1: token<wgmma>) {
      %f, %t1 = async_gemm %A[0, 0], %A[0, 0], %c : tile<64x64xf32>, token<wgmma>
      wait %b1
      yield %f, %t1
    }
    %a1 = await %r, %t : tile<64x64xf32>
    %s, %u = for 0, %n, 1, [%z, %none] : tile<64x64xf32>, token<wgmma> (%k_1: i32, %d: tile<64x64xf32>, %b2: token<wgmma>) {
      %g, %t2 = async_gemm %A[0, 0], %A[0, 0], %d, scale_d = %p : tile<64x64xf32>, token<wgmma>
      wait %b2
      yield %g, %t2
    }
    %a2 = await %s, %u : tile<64x64xf32>
    %q, %v = for 0, %n, 1, [%z, %none] : tile<64x64xf32>, token<wgmma> (%k_2: i32, %e: tile<64x64xf32>, %b3: token<wgmma>) {
      store %C[0, 0], %e {dims = (0, 1)}
      %h, %t3 = async_gemm %A[0, 0], %A[0, 0], %e : tile<64x64xf32>, token<wgmma>
      wait %b3
      yield %h, %t3
    }
    %a3 = await %q, %v : tile<64x64xf32>
    %x = add %a1, %a2 : tile<64x64xf32>
    %y = add %x, %a3 : tile<64x64xf32>
    store %C[0, 0], %y {dims = (0, 1)}
  }
}

// ----
tile kernel @stays(%C: tensor<64x64xf32>, %n: i32, %p: bool) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %A = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %one = splat 1.0 {shape = (64, 64)} : tile<64x64xf32>
    %none = no_token {counter = "wgmma"} : token<wgmma>
    %r, %t = for 0, %n, 1, [%one, %none] : tile<64x64xf32>, token<wgmma> (%k: i32, %c: tile<64x64xf32>, %b1: token<wgmma>) {
      %f, %t1 = async_gemm %A[0, 0], %A[0, 0], %c : tile<64x64xf32>, token<wgmma>
      wait %b1
      yield %f, %t1
    }
    %a1 = await %r, %t : tile<64x64xf32>
    %s, %u = for 0, %n, 1, [%z, %none] : tile<64x64xf32>, token<wgmma> (%k_1: i32, %d: tile<64x64xf32>, %b2: token<wgmma>) {
      %g, %t2 = async_gemm %A[0, 0], %A[0, 0], %d, scale_d = %p : tile<64x64xf32>, token<wgmma>
      wait %b2
      yield %g, %t2
    }
    %a2 = await %s, %u : tile<64x64xf32>
    %q, %v = for 0, %n, 1, [%z, %none] : tile<64x64xf32>, token<wgmma> (%k_2: i32, %e: tile<64x64xf32>, %b3: token<wgmma>) {
      store %C[0, 0], %e {dims = (0, 1)}
      %h, %t3 = async_gemm %A[0, 0], %A[0, 0], %e : tile<64x64xf32>, token<wgmma>
      wait %b3
      yield %h, %t3
    }
    %a3 = await %q, %v : tile<64x64xf32>
    %x = add %a1, %a2 : tile<64x64xf32>
    %y = add %x, %a3 : tile<64x64xf32>
    store %C[0, 0], %y {dims = (0, 1)}
  }
}
