// Contributions are kept element by element until the end; a second place that contributes has its own.
// pass: expand_reducers
traced kernel @k(%A: tensor<32x512xf32>, %B: tensor<32xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %acc = alloc {type_ = fragment<32xf32>} : fragment<32xf32>
    %d = alloc {type_ = fragment<32xf32>} : fragment<32xf32>
    fill %acc[0], 0.0 {shape = (32,), dims = (0,)}
    for 0, 4, 1 (%k: i32) {
      %at = mul %k, 128
      parallel {extents = (32, 128)} (%i: i32, %j: i32) {
        %c = add %at, %j
        %x = load %A[%i, %c] {shape = (), dims = (none, none)} : f32
        reducer_update %acc[%i], %x {kind = "sum"}
        yield
      }
      parallel {extents = (128,)} (%j2: i32) {
        %x2 = load %A[0, %j2] {shape = (), dims = (none, none)} : f32
        reducer_update %acc[3], %x2 {kind = "sum"}
        yield
      }
      yield
    }
    finalize_reducer %acc, dst = %d
    copy %d[0], %B[0] {shape = (32,), src_dims = (0,), dst_dims = (0,)}
    yield
  }
}

// ----
traced kernel @k(%A: tensor<32x512xf32>, %B: tensor<32xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %acc = alloc {type_ = fragment<32xf32>} : fragment<32xf32>
    %acc_1 = alloc {type_ = fragment<32x128xf32>} : fragment<32x128xf32>
    %acc_2 = alloc {type_ = fragment<128xf32>} : fragment<128xf32>
    %d = alloc {type_ = fragment<32xf32>} : fragment<32xf32>
    fill %acc[0], 0.0 {shape = (32,), dims = (0,)}
    fill %acc_1[0, 0], 0.0 {shape = (32, 128), dims = (0, 1)}
    fill %acc_2[0], 0.0 {shape = (128,), dims = (0,)}
    for 0, 4, 1 (%k: i32) {
      %at = mul %k, 128 : i32
      parallel {extents = (32, 128)} (%i: i32, %j: i32) {
        %c = add %at, %j : i32
        %x = load %A[%i, %c] {shape = (), dims = (none, none)} : f32
        %0 = load %acc_1[%i, %j] {shape = (), dims = (none, none)} : f32
        %1 = add %0, %x : f32
        store %acc_1[%i, %j], %1 {dims = (none, none)}
        yield
      }
      parallel {extents = (128,)} (%j2: i32) {
        %x2 = load %A[0, %j2] {shape = (), dims = (none, none)} : f32
        %2 = load %acc_2[%j2] {shape = (), dims = (none,)} : f32
        %3 = add %2, %x2 : f32
        store %acc_2[%j2], %3 {dims = (none,)}
        yield
      }
      yield
    }
    %4 = alloc {type_ = fragment<32xf32>} : fragment<32xf32>
    reduce_into %acc_1, %4 {dim = 1, kind = "sum"}
    parallel {extents = (32,)} (%5: i32) {
      %6 = load %4[%5] {shape = (), dims = (none,)} : f32
      %7 = load %acc[%5] {shape = (), dims = (none,)} : f32
      %8 = add %7, %6 : f32
      store %acc[%5], %8 {dims = (none,)}
      yield
    }
    fill %acc_1[0, 0], 0.0 {shape = (32, 128), dims = (0, 1)}
    %9 = alloc {type_ = fragment<1xf32>} : fragment<1xf32>
    reduce_into %acc_2, %9 {dim = 0, kind = "sum"}
    parallel {extents = (1,)} (%10: i32) {
      %11 = load %9[%10] {shape = (), dims = (none,)} : f32
      %12 = load %acc[3] {shape = (), dims = (none,)} : f32
      %13 = add %12, %11 : f32
      store %acc[3], %13 {dims = (none,)}
      yield
    }
    fill %acc_2[0], 0.0 {shape = (128,), dims = (0,)}
    copy %acc[0], %d[0] {shape = (32,), src_dims = (0,), dst_dims = (0,)}
    copy %d[0], %B[0] {shape = (32,), src_dims = (0,), dst_dims = (0,)}
    yield
  }
}
