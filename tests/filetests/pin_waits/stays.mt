// What others read as well, or what the branch's condition is computed from, is awaited where it was; so is
// what a mask's branch reads.
// pass: pin_waits
// target: sm_90a
tile kernel @read(%A: tensor<64x64xbf16>, %B: tensor<64x64xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %acc = for 0, %n, 1, [%z] : tile<64x64xf32> (%i: i32, %a: tile<64x64xf32>) {
      %g, %t = async_gemm %As[0, 0], %Bs[0, 0], %a : tile<64x64xf32>, token<wgmma>
      %b = await %g, %t : tile<64x64xf32>
      %low = cmp %b, 0.0 {predicate = "lt"} : tile<64x64xbool>
      %some = some_in_warp %low : bool
      %c = if %some : tile<64x64xf32> then {
        %d = mul %b, %b : tile<64x64xf32>
        yield %d
      } orelse {
        yield %b
      }
      %h, %u = async_gemm %As[0, 0], %Bs[0, 0], %c : tile<64x64xf32>, token<wgmma>
      %v = await %h, %u : tile<64x64xf32>
      %odd = cmp %i, 3 {predicate = "ne"} : bool
      %e = if %odd : tile<64x64xf32> then {
        %d_1 = add %v, %v : tile<64x64xf32>
        yield %d_1
      } orelse {
        yield %v
      }
      yield %e
    }
    store %C[0, 0], %acc {dims = (0, 1)}
  }
}


// ----
tile kernel @read(%A: tensor<64x64xbf16>, %B: tensor<64x64xbf16>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    copy %A[0, 0], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %B[0, 0], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %acc = for 0, %n, 1, [%z] : tile<64x64xf32> (%i: i32, %a: tile<64x64xf32>) {
      %g, %t = async_gemm %As[0, 0], %Bs[0, 0], %a : tile<64x64xf32>, token<wgmma>
      %b = await %g, %t : tile<64x64xf32>
      %low = cmp %b, 0.0 {predicate = "lt"} : tile<64x64xbool>
      %some = some_in_warp %low : bool
      %c = if %some : tile<64x64xf32> then {
        %d = mul %b, %b : tile<64x64xf32>
        yield %d
      } orelse {
        yield %b
      }
      %h, %u = async_gemm %As[0, 0], %Bs[0, 0], %c : tile<64x64xf32>, token<wgmma>
      %v = await %h, %u : tile<64x64xf32>
      %odd = cmp %i, 3 {predicate = "ne"} : bool
      %e = if %odd : tile<64x64xf32> then {
        %d_1 = add %v, %v : tile<64x64xf32>
        yield %d_1
      } orelse {
        yield %v
      }
      yield %e
    }
    store %C[0, 0], %acc {dims = (0, 1)}
  }
}
