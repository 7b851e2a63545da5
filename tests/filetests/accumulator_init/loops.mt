// The accumulator of a loop of unknown length, with two products a turn, and one of a loop that has turns. Stays: one
// that starts from other numbers, one that is read in the loop, one of too many registers, two in one loop.
// pass: accumulator_init
// target: sm_90a
tile kernel @k(%x: f32, %n: i32, %C: tensor<64x64xf32>, %D: tensor<64x320xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %A = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %B = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %W = alloc {type_ = shared<64x320xbf16>} : shared<64x320xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %o = splat %x {shape = (64, 64)} : tile<64x64xf32>
    %wide = splat 0.0 {shape = (64, 320)} : tile<64x320xf32>
    %none = no_token {counter = "wgmma"} : token<wgmma>
    %r1, %r2, %t = for 2, %n, 1, [%z, %o, %none] : tile<64x64xf32>, tile<64x64xf32>, token<wgmma> (%k: i32, %c1: tile<64x64xf32>, %c2: tile<64x64xf32>, %before: token<wgmma>) {
      %f1, %t1 = async_gemm %A[0, 0], %B[0, 0], %c1 : tile<64x64xf32>, token<wgmma>
      %g1, %t2 = async_gemm %A[0, 0], %B[0, 0], %f1 : tile<64x64xf32>, token<wgmma>
      %f2, %t3 = async_gemm %A[0, 0], %B[0, 0], %c2 : tile<64x64xf32>, token<wgmma>
      wait %before
      yield %g1, %f2, %t3
    }
    %y0, %y1, %x_1 = for 2, %n, 1, [%z, %z, %none] : tile<64x64xf32>, tile<64x64xf32>, token<wgmma> (%k_4: i32, %c3: tile<64x64xf32>, %c4: tile<64x64xf32>, %before_3: token<wgmma>) {
      %f3, %t7 = async_gemm %A[0, 0], %B[0, 0], %c3 : tile<64x64xf32>, token<wgmma>
      %f4, %t8 = async_gemm %A[0, 0], %B[0, 0], %c4 : tile<64x64xf32>, token<wgmma>
      wait %before_3
      yield %f3, %f4, %t8
    }
    %a0 = await %y0, %x_1 : tile<64x64xf32>
    %a4 = await %y1, %x_1 : tile<64x64xf32>
    %a1 = await %r1, %t : tile<64x64xf32>
    %a2 = await %r2, %t : tile<64x64xf32>
    %b0 = add %a0, %a1 : tile<64x64xf32>
    %b1 = add %b0, %a2 : tile<64x64xf32>
    %s, %u = for 0, 4, 1, [%z, %none] : tile<64x64xf32>, token<wgmma> (%k_1: i32, %c: tile<64x64xf32>, %before_1: token<wgmma>) {
      %f, %t4 = async_gemm %A[0, 0], %B[0, 0], %c : tile<64x64xf32>, token<wgmma>
      wait %before_1
      yield %f, %t4
    }
    %d = await %s, %u : tile<64x64xf32>
    %p = for 0, 4, 1, [%z] : tile<64x64xf32> (%k_2: i32, %c_1: tile<64x64xf32>) {
      %h = mul %c_1, %x : tile<64x64xf32>
      %f_1, %t5 = async_gemm %A[0, 0], %B[0, 0], %h : tile<64x64xf32>, token<wgmma>
      %e = await %f_1, %t5 : tile<64x64xf32>
      yield %e
    }
    %q, %v = for 0, 4, 1, [%wide, %none] : tile<64x320xf32>, token<wgmma> (%k_3: i32, %c_2: tile<64x320xf32>, %before_2: token<wgmma>) {
      %f_2, %t6 = async_gemm %A[0, 0], %W[0, 0], %c_2 : tile<64x320xf32>, token<wgmma>
      wait %before_2
      yield %f_2, %t6
    }
    %w = await %q, %v : tile<64x320xf32>
    %b2 = add %b1, %d : tile<64x64xf32>
    %b4 = add %b2, %p : tile<64x64xf32>
    %b3 = add %b4, %a4 : tile<64x64xf32>
    store %C[0, 0], %b3 {dims = (0, 1)}
    store %D[0, 0], %w {dims = (0, 1)}
  }
}


// ----
tile kernel @k(%x: f32, %n: i32, %C: tensor<64x64xf32>, %D: tensor<64x320xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %A = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %B = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %W = alloc {type_ = shared<64x320xbf16>} : shared<64x320xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %o = splat %x {shape = (64, 64)} : tile<64x64xf32>
    %wide = splat 0.0 {shape = (64, 320)} : tile<64x320xf32>
    %none = no_token {counter = "wgmma"} : token<wgmma>
    %0 = unset {shape = (64, 64), dtype = f32} : tile<64x64xf32>
    %r1, %r2, %t = for 2, %n, 1, [%0, %o, %none] : tile<64x64xf32>, tile<64x64xf32>, token<wgmma> (%k: i32, %c1: tile<64x64xf32>, %c2: tile<64x64xf32>, %before: token<wgmma>) {
      %1 = cmp %k, 2 {predicate = "ne"} : bool
      %f1, %t1 = async_gemm %A[0, 0], %B[0, 0], %c1, scale_d = %1 : tile<64x64xf32>, token<wgmma>
      %g1, %t2 = async_gemm %A[0, 0], %B[0, 0], %f1 : tile<64x64xf32>, token<wgmma>
      %f2, %t3 = async_gemm %A[0, 0], %B[0, 0], %c2 : tile<64x64xf32>, token<wgmma>
      wait %before
      yield %g1, %f2, %t3
    }
    %y0, %y1, %x_1 = for 2, %n, 1, [%z, %z, %none] : tile<64x64xf32>, tile<64x64xf32>, token<wgmma> (%k_4: i32, %c3: tile<64x64xf32>, %c4: tile<64x64xf32>, %before_3: token<wgmma>) {
      %f3, %t7 = async_gemm %A[0, 0], %B[0, 0], %c3 : tile<64x64xf32>, token<wgmma>
      %f4, %t8 = async_gemm %A[0, 0], %B[0, 0], %c4 : tile<64x64xf32>, token<wgmma>
      wait %before_3
      yield %f3, %f4, %t8
    }
    %a0 = await %y0, %x_1 : tile<64x64xf32>
    %a4 = await %y1, %x_1 : tile<64x64xf32>
    %2 = cmp 2, %n {predicate = "lt"} : bool
    %a1 = await %r1, %t, written = %2 : tile<64x64xf32>
    %a2 = await %r2, %t : tile<64x64xf32>
    %b0 = add %a0, %a1 : tile<64x64xf32>
    %b1 = add %b0, %a2 : tile<64x64xf32>
    %3 = unset {shape = (64, 64), dtype = f32} : tile<64x64xf32>
    %s, %u = for 0, 4, 1, [%3, %none] : tile<64x64xf32>, token<wgmma> (%k_1: i32, %c: tile<64x64xf32>, %before_1: token<wgmma>) {
      %4 = cmp %k_1, 0 {predicate = "ne"} : bool
      %f, %t4 = async_gemm %A[0, 0], %B[0, 0], %c, scale_d = %4 : tile<64x64xf32>, token<wgmma>
      wait %before_1
      yield %f, %t4
    }
    %d = await %s, %u : tile<64x64xf32>
    %p = for 0, 4, 1, [%z] : tile<64x64xf32> (%k_2: i32, %c_1: tile<64x64xf32>) {
      %h = mul %c_1, %x : tile<64x64xf32>
      %f_1, %t5 = async_gemm %A[0, 0], %B[0, 0], %h : tile<64x64xf32>, token<wgmma>
      %e = await %f_1, %t5 : tile<64x64xf32>
      yield %e
    }
    %q, %v = for 0, 4, 1, [%wide, %none] : tile<64x320xf32>, token<wgmma> (%k_3: i32, %c_2: tile<64x320xf32>, %before_2: token<wgmma>) {
      %f_2, %t6 = async_gemm %A[0, 0], %W[0, 0], %c_2 : tile<64x320xf32>, token<wgmma>
      wait %before_2
      yield %f_2, %t6
    }
    %w = await %q, %v : tile<64x320xf32>
    %b2 = add %b1, %d : tile<64x64xf32>
    %b4 = add %b2, %p : tile<64x64xf32>
    %b3 = add %b4, %a4 : tile<64x64xf32>
    store %C[0, 0], %b3 {dims = (0, 1)}
    store %D[0, 0], %w {dims = (0, 1)}
  }
}
