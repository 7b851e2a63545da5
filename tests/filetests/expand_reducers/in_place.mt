// A maximum starts from the least number there is. Finalised in place, the reducer is copied nowhere. A fragment that
// nothing contributes to is no reducer, and stays as it is.
// pass: expand_reducers
traced kernel @in_place(%A: tensor<8x64xi32>, %B: tensor<8xi32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %acc = alloc {type_ = fragment<8xi32>} : fragment<8xi32>
    %other = alloc {type_ = fragment<8xi32>} : fragment<8xi32>
    fill %acc[0], -100 {shape = (8,), dims = (0,)}
    fill %other[0], 0 {shape = (8,), dims = (0,)}
    parallel {extents = (8, 64)} (%i: i32, %j: i32) {
      %x = load %A[%i, %j] {shape = (), dims = (none, none)} : i32
      reducer_update %acc[%i], %x {kind = "max"}
      yield
    }
    finalize_reducer %acc
    copy %acc[0], %B[0] {shape = (8,), src_dims = (0,), dst_dims = (0,)}
    copy %other[0], %B[0] {shape = (8,), src_dims = (0,), dst_dims = (0,)}
    yield
  }
}

// ----
traced kernel @in_place(%A: tensor<8x64xi32>, %B: tensor<8xi32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %acc = alloc {type_ = fragment<8xi32>} : fragment<8xi32>
    %acc_1 = alloc {type_ = fragment<8x64xi32>} : fragment<8x64xi32>
    %other = alloc {type_ = fragment<8xi32>} : fragment<8xi32>
    fill %acc[0], -100 {shape = (8,), dims = (0,)}
    fill %acc_1[0, 0], -2147483648 {shape = (8, 64), dims = (0, 1)}
    fill %other[0], 0 {shape = (8,), dims = (0,)}
    parallel {extents = (8, 64)} (%i: i32, %j: i32) {
      %x = load %A[%i, %j] {shape = (), dims = (none, none)} : i32
      %0 = load %acc_1[%i, %j] {shape = (), dims = (none, none)} : i32
      %1 = max %0, %x : i32
      store %acc_1[%i, %j], %1 {dims = (none, none)}
      yield
    }
    %2 = alloc {type_ = fragment<8xi32>} : fragment<8xi32>
    reduce_into %acc_1, %2 {dim = 1, kind = "max"}
    parallel {extents = (8,)} (%3: i32) {
      %4 = load %2[%3] {shape = (), dims = (none,)} : i32
      %5 = load %acc[%3] {shape = (), dims = (none,)} : i32
      %6 = max %5, %4 : i32
      store %acc[%3], %6 {dims = (none,)}
      yield
    }
    fill %acc_1[0, 0], -2147483648 {shape = (8, 64), dims = (0, 1)}
    copy %acc[0], %B[0] {shape = (8,), src_dims = (0,), dst_dims = (0,)}
    copy %other[0], %B[0] {shape = (8,), src_dims = (0,), dst_dims = (0,)}
    yield
  }
}
