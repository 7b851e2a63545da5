// The place that is contributed to is another one in each turn of %k: the partial results are reduced behind the
// T.Parallel, not at the end.
// pass: expand_reducers
traced kernel @moving_place(%A: tensor<4x128xf32>, %B: tensor<4xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %acc = alloc {type_ = fragment<4xf32>} : fragment<4xf32>
    %d = alloc {type_ = fragment<4xf32>} : fragment<4xf32>
    fill %acc[0], 0.0 {shape = (4,), dims = (0,)}
    for 0, 4, 1 (%k: i32) {
      parallel {extents = (128,)} (%j: i32) {
        %x = load %A[%k, %j] {shape = (), dims = (none, none)} : f32
        reducer_update %acc[%k], %x {kind = "sum"}
        yield
      }
      yield
    }
    finalize_reducer %acc, dst = %d
    copy %d[0], %B[0] {shape = (4,), src_dims = (0,), dst_dims = (0,)}
    yield
  }
}

// ----
traced kernel @moving_place(%A: tensor<4x128xf32>, %B: tensor<4xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %acc = alloc {type_ = fragment<4xf32>} : fragment<4xf32>
    %acc_1 = alloc {type_ = fragment<128xf32>} : fragment<128xf32>
    %d = alloc {type_ = fragment<4xf32>} : fragment<4xf32>
    fill %acc[0], 0.0 {shape = (4,), dims = (0,)}
    for 0, 4, 1 (%k: i32) {
      fill %acc_1[0], 0.0 {shape = (128,), dims = (0,)}
      parallel {extents = (128,)} (%j: i32) {
        %x = load %A[%k, %j] {shape = (), dims = (none, none)} : f32
        %0 = load %acc_1[%j] {shape = (), dims = (none,)} : f32
        %1 = add %0, %x : f32
        store %acc_1[%j], %1 {dims = (none,)}
        yield
      }
      %2 = alloc {type_ = fragment<1xf32>} : fragment<1xf32>
      reduce_into %acc_1, %2 {dim = 0, kind = "sum"}
      parallel {extents = (1,)} (%3: i32) {
        %4 = load %2[%3] {shape = (), dims = (none,)} : f32
        %5 = load %acc[%k] {shape = (), dims = (none,)} : f32
        %6 = add %5, %4 : f32
        store %acc[%k], %6 {dims = (none,)}
        yield
      }
      yield
    }
    copy %acc[0], %d[0] {shape = (4,), src_dims = (0,), dst_dims = (0,)}
    copy %d[0], %B[0] {shape = (4,), src_dims = (0,), dst_dims = (0,)}
    yield
  }
}
