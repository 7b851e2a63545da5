// Behind a loop there is nothing to run beside the product.
// pass: pin_waits
// target: sm_90a
tile kernel @once(%A: tensor<64x64xbf16>, %B: tensor<64x64xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %g, %t = async_gemm %As[0, 0], %Bs[0, 0], %z : tile<64x64xf32>, token<wgmma>
    %b = await %g, %t : tile<64x64xf32>
    %low = cmp %z, 1.0 {predicate = "ne"} : tile<64x64xbool>
    %odd = some_in_warp %low : bool
    %c = if %odd : tile<64x64xf32> then {
      yield %z
    } orelse {
      yield %b
    }
    store %C[0, 0], %c {dims = (0, 1)}
  }
}


// ----
tile kernel @once(%A: tensor<64x64xbf16>, %B: tensor<64x64xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %g, %t = async_gemm %As[0, 0], %Bs[0, 0], %z : tile<64x64xf32>, token<wgmma>
    %b = await %g, %t : tile<64x64xf32>
    %low = cmp %z, 1.0 {predicate = "ne"} : tile<64x64xbool>
    %odd = some_in_warp %low : bool
    %c = if %odd : tile<64x64xf32> then {
      yield %z
    } orelse {
      yield %b
    }
    store %C[0, 0], %c {dims = (0, 1)}
  }
}
