// A tile that goes to two tensors whose rows begin differently; one that goes to shared memory; one that begins in front
// of the tensor: all stay. Where rows are of a multiple of 8 elements there is nothing to do.
// pass: align_rows
// target: sm_90a
tile kernel @rows(%X: tensor<MxNxbf16>, %Y: tensor<MxKxbf16>, %Z: tensor<MxLxbf16>) dims(M = %M: i32, N = %N: i32, K = %K: i32, L = %L: i32) facts {L = 8} attrs {threads = 64} {
  launch %M, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %X[%bx, 0] {shape = (64,), dims = (none, 0)} : tile<64xbf16>
    store %X[%bx, 64], %x {dims = (none, 0)}
    store %Y[%bx, 0], %x {dims = (none, 0)}
    %s = alloc {type_ = shared<64xbf16>} : shared<64xbf16>
    %y = load %X[%bx, 0] {shape = (64,), dims = (none, 0)} : tile<64xbf16>
    store %s[0], %y {dims = (0,)}
    %back = sub 3, %bx : i32
    %b = load %X[%bx, %back] {shape = (64,), dims = (none, 0)} : tile<64xbf16>
    store %X[%bx, 0], %b {dims = (none, 0)}
    %z = load %Z[%bx, 0] {shape = (64,), dims = (none, 0)} : tile<64xbf16>
    store %Z[%bx, 64], %z {dims = (none, 0)}
  }
}

// ----
tile kernel @rows(%X: tensor<MxNxbf16>, %Y: tensor<MxKxbf16>, %Z: tensor<MxLxbf16>) dims(M = %M: i32, N = %N: i32, K = %K: i32, L = %L: i32) facts {L = 8} attrs {threads = 64} {
  launch %M, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %X[%bx, 0] {shape = (64,), dims = (none, 0)} : tile<64xbf16>
    store %X[%bx, 64], %x {dims = (none, 0)}
    store %Y[%bx, 0], %x {dims = (none, 0)}
    %s = alloc {type_ = shared<64xbf16>} : shared<64xbf16>
    %y = load %X[%bx, 0] {shape = (64,), dims = (none, 0)} : tile<64xbf16>
    store %s[0], %y {dims = (0,)}
    %back = sub 3, %bx : i32
    %b = load %X[%bx, %back] {shape = (64,), dims = (none, 0)} : tile<64xbf16>
    store %X[%bx, 0], %b {dims = (none, 0)}
    %z = load %Z[%bx, 0] {shape = (64,), dims = (none, 0)} : tile<64xbf16>
    store %Z[%bx, 64], %z {dims = (none, 0)}
  }
}
