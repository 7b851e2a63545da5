// Two ways meet in front of the loop, which have filled its accumulator otherwise. The product that the loop leaves in
// flight is awaited where there is a turn.
// pass: sink_wgmma_waits
// target: sm_90a
tile kernel @two_ways(%A: tensor<64xKxbf16>, %B: tensor<64xKxbf16>, %C: tensor<64x64xf32>, %n: i32) dims(K = %K: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %some = cmp %n, 0 {predicate = "gt"} : bool
    %acc = if %some : tile<64x64xf32> then {
      %f, %t = async_gemm %As[0, 0], %Bs[0, 0], %z : tile<64x64xf32>, token<wgmma>
      %one = await %f, %t : tile<64x64xf32>
      yield %one
    } orelse {
      yield %z
    }
    %r = for 0, %n, 1, [%acc] : tile<64x64xf32> (%i: i32, %acc_1: tile<64x64xf32>) {
      %g, %u = async_gemm %As[0, 0], %Bs[0, 0], %acc_1 : tile<64x64xf32>, token<wgmma>
      %acc_2 = await %g, %u : tile<64x64xf32>
      yield %acc_2
    }
    store %C[0, 0], %r {dims = (0, 1)}
  }
}

// ----
tile kernel @two_ways(%A: tensor<64xKxbf16>, %B: tensor<64xKxbf16>, %C: tensor<64x64xf32>, %n: i32) dims(K = %K: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %some = cmp %n, 0 {predicate = "gt"} : bool
    %acc = if %some : tile<64x64xf32> then {
      %f, %t = async_gemm %As[0, 0], %Bs[0, 0], %z : tile<64x64xf32>, token<wgmma>
      %one = await %f, %t : tile<64x64xf32>
      yield %one
    } orelse {
      yield %z
    }
    %0 = no_token {counter = "wgmma"} : token<wgmma>
    %1 = cmp 0, %n {predicate = "lt"} : bool
    %r = if %1 : tile<64x64xf32> then {
      %acc_1, %flight = for 0, %n, 1, [%acc, %0] : tile<64x64xf32>, token<wgmma> (%i: i32, %acc_1_1: tile<64x64xf32>, %flight_1: token<wgmma>) {
        %g, %u = async_gemm %As[0, 0], %Bs[0, 0], %acc_1_1, behind = %flight_1 : tile<64x64xf32>, token<wgmma>
        yield %g, %u
      }
      %r_1 = await %acc_1, %flight : tile<64x64xf32>
      yield %r_1
    } orelse {
      yield %acc
    }
    store %C[0, 0], %r {dims = (0, 1)}
  }
}
