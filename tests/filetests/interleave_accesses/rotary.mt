// Pairs of elements that are turned: one load, one store.
// pass: interleave_accesses
// target: sm_90a
tile kernel @turn(%X: tensor<MxNxbf16>, %Y: tensor<MxNxbf16>) dims(M = %M: i32, N = %N: i32) attrs {threads = 32} {
  launch %M, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %j = iota {shape = (64,), dim = 0} : tile<64xi32>
    %even = mul %j, 2 : tile<64xi32>
    %odd = add %even, 1 : tile<64xi32>
    %a = load %X[%bx, %even] {shape = (64,), dims = (none, none)} : tile<64xbf16>
    %b = load %X[%bx, %odd] {shape = (64,), dims = (none, none)} : tile<64xbf16>
    store %Y[%bx, %even], %b {dims = (none, none)}
    store %Y[%bx, %odd], %a {dims = (none, none)}
  }
}

// ----
tile kernel @turn(%X: tensor<MxNxbf16>, %Y: tensor<MxNxbf16>) dims(M = %M: i32, N = %N: i32) attrs {threads = 32} {
  launch %M, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %0 = load %X[%bx, 0] {shape = (128,), dims = (none, 0)} : tile<128xbf16>
    %a = interleaved_slice %0 {dim = 0, run = 1, count = 2, index = 0} : tile<64xbf16>
    %b = interleaved_slice %0 {dim = 0, run = 1, count = 2, index = 1} : tile<64xbf16>
    %1 = interleave %b, %a {dim = 0} : tile<128xbf16>
    store %Y[%bx, 0], %1 {dims = (none, 0)}
  }
}
