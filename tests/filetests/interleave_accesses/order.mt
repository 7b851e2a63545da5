// What is written in between is read; a store whose other part comes behind a read of the tensor stays where it is.
// pass: interleave_accesses
// target: sm_90a
tile kernel @turn(%X: tensor<MxNxf32>) dims(M = %M: i32, N = %N: i32) attrs {threads = 32} {
  launch %M, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %j = iota {shape = (64,), dim = 0} : tile<64xi32>
    %even = mul %j, 2 : tile<64xi32>
    %odd = add %even, 1 : tile<64xi32>
    %a = load %X[%bx, %even] {shape = (64,), dims = (none, none)} : tile<64xf32>
    store %X[%bx, %odd], %a {dims = (none, none)}
    %b = load %X[%bx, %odd] {shape = (64,), dims = (none, none)} : tile<64xf32>
    store %X[%bx, %even], %b {dims = (none, none)}
  }
}

// ----
tile kernel @turn(%X: tensor<MxNxf32>) dims(M = %M: i32, N = %N: i32) attrs {threads = 32} {
  launch %M, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %j = iota {shape = (64,), dim = 0} : tile<64xi32>
    %even = mul %j, 2 : tile<64xi32>
    %odd = add %even, 1 : tile<64xi32>
    %a = load %X[%bx, %even] {shape = (64,), dims = (none, none)} : tile<64xf32>
    store %X[%bx, %odd], %a {dims = (none, none)}
    %b = load %X[%bx, %odd] {shape = (64,), dims = (none, none)} : tile<64xf32>
    store %X[%bx, %even], %b {dims = (none, none)}
  }
}
