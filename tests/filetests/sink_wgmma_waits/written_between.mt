// %Cs is overwritten between the product that follows in the accumulator and that one's await: the product of the
// iteration before, which reads %Cs, has a wait of its own.
// pass: sink_wgmma_waits
// target: sm_90a
tile kernel @between(%A: tensor<64x64xbf16>, %B: tensor<64x64xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Cs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %acc = for 0, %n, 1, [%z] : tile<64x64xf32> (%i: i32, %acc_1: tile<64x64xf32>) {
      %f, %t = async_gemm %As[0, 0], %Bs[0, 0], %acc_1 : tile<64x64xf32>, token<wgmma>
      %acc_2 = await %f, %t : tile<64x64xf32>
      copy %A[0, 0], %Cs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      %acc_3 = add %acc_2, 1.0 : tile<64x64xf32>
      %g, %u = async_gemm %Cs[0, 0], %Bs[0, 0], %acc_3 : tile<64x64xf32>, token<wgmma>
      %acc_4 = await %g, %u : tile<64x64xf32>
      yield %acc_4
    }
    store %C[0, 0], %acc {dims = (0, 1)}
  }
}

// ----
tile kernel @between(%A: tensor<64x64xbf16>, %B: tensor<64x64xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Cs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %0 = no_token {counter = "wgmma"} : token<wgmma>
    %1 = cmp 0, %n {predicate = "lt"} : bool
    %acc = if %1 : tile<64x64xf32> then {
      %acc_1, %flight = for 0, %n, 1, [%z, %0] : tile<64x64xf32>, token<wgmma> (%i: i32, %acc_1_1: tile<64x64xf32>, %flight_1: token<wgmma>) {
        %f, %t = async_gemm %As[0, 0], %Bs[0, 0], %acc_1_1 : tile<64x64xf32>, token<wgmma>
        wait %flight_1
        copy %A[0, 0], %Cs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        %acc_2 = await %f, %t : tile<64x64xf32>
        %acc_3 = add %acc_2, 1.0 : tile<64x64xf32>
        %g, %u = async_gemm %Cs[0, 0], %Bs[0, 0], %acc_3 : tile<64x64xf32>, token<wgmma>
        yield %g, %u
      }
      %acc_4 = await %acc_1, %flight : tile<64x64xf32>
      yield %acc_4
    } orelse {
      yield %z
    }
    store %C[0, 0], %acc {dims = (0, 1)}
  }
}
