// The branch goes to the wait, with what it needs; what else stood between comes behind it.
// pass: pin_waits
// target: sm_90a
tile kernel @pinned(%A: tensor<64x64xbf16>, %B: tensor<64x64xbf16>, %C: tensor<64x64xf32>, %n: i32, %f: f32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %w = splat %f {shape = (64, 64)} : tile<64x64xf32>
    %acc, %other = for 0, %n, 1, [%z, %z] : tile<64x64xf32>, tile<64x64xf32> (%i: i32, %a: tile<64x64xf32>, %o: tile<64x64xf32>) {
      %g, %t = async_gemm %As[0, 0], %Bs[0, 0], %a : tile<64x64xf32>, token<wgmma>
      %b = await %g, %t : tile<64x64xf32>
      %p = add %o, 1.0 : tile<64x64xf32>
      %m = mul %p, 2.0 : tile<64x64xf32>
      %some = cmp %p, %w {predicate = "lt"} : tile<64x64xbool>
      %odd = some_in_warp %some : bool
      %c = if %odd : tile<64x64xf32> then {
        %d = mul %b, %w : tile<64x64xf32>
        yield %d
      } orelse {
        yield %b
      }
      yield %c, %m
    }
    %sum = add %acc, %other : tile<64x64xf32>
    store %C[0, 0], %sum {dims = (0, 1)}
  }
}


// ----
tile kernel @pinned(%A: tensor<64x64xbf16>, %B: tensor<64x64xbf16>, %C: tensor<64x64xf32>, %n: i32, %f: f32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %w = splat %f {shape = (64, 64)} : tile<64x64xf32>
    %acc, %other = for 0, %n, 1, [%z, %z] : tile<64x64xf32>, tile<64x64xf32> (%i: i32, %a: tile<64x64xf32>, %o: tile<64x64xf32>) {
      %g, %t = async_gemm %As[0, 0], %Bs[0, 0], %a : tile<64x64xf32>, token<wgmma>
      %p = add %o, 1.0 : tile<64x64xf32>
      %some = cmp %p, %w {predicate = "lt"} : tile<64x64xbool>
      %odd = some_in_warp %some : bool
      %c = if %odd : tile<64x64xf32> then {
        %b = await %g, %t : tile<64x64xf32>
        %d = mul %b, %w : tile<64x64xf32>
        yield %d
      } orelse {
        %b_1 = await %g, %t : tile<64x64xf32>
        yield %b_1
      }
      %m = mul %p, 2.0 : tile<64x64xf32>
      yield %c, %m
    }
    %sum = add %acc, %other : tile<64x64xf32>
    store %C[0, 0], %sum {dims = (0, 1)}
  }
}
