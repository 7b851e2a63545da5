// pass: software_pipeline
// target: gfx942
// The same through registers.
// The condition and the scalar load of the row are needed ahead. T, read before it is copied, stays synchronous.
tile kernel @k(%A: tensor<64x64xf32>, %P: tensor<64xi32>, %C: tensor<64x64xf32>) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<16x64xf32>}
    %T = alloc {type_ = shared<16x64xf32>}
    for 0, 9, 2 {kind = "pipelined", stages = 2} (%k: i32) {
      %t = load %T[0, 0] {shape = (16, 64), dims = (0, 1)}
      store %C[16, 0], %t {dims = (0, 1)}
      %row = load %P[%k] {shape = (), dims = (none,)}
      %p = cmp %row, 0 {predicate = "ge"}
      if %p then {
        copy %A[%row, 0], %S[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        copy %A[0, 0], %T[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        %s = load %S[0, 0] {shape = (16, 64), dims = (0, 1)}
        store %C[0, 0], %s {dims = (0, 1)}
      } orelse {
      }
      yield
    }
  }
}

// ----
tile kernel @k(%A: tensor<64x64xf32>, %P: tensor<64xi32>, %C: tensor<64x64xf32>) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<2 versions x 16x64xf32>} : shared<2 versions x 16x64xf32>
    %T = alloc {type_ = shared<16x64xf32>} : shared<16x64xf32>
    %row = load %P[0] {shape = (), dims = (none,)} : i32
    %p_ahead = cmp %row, 0 {predicate = "ge"} : bool
    %0 = if %p_ahead : tile<16x64xf32> then {
      %S_1 = load %A[%row, 0] {shape = (16, 64), dims = (0, 1)} : tile<16x64xf32>
      yield %S_1
    } orelse {
      %1 = splat 0.0 {shape = (16, 64)} : tile<16x64xf32>
      yield %1
    }
    %2 = for 0, 9, 2, [%0] : tile<16x64xf32> (%k: i32, %ahead: tile<16x64xf32>) {
      %3 = floordiv %k, 2 : i32
      %slot = floormod %3, 2 : i32
      %t = load %T[0, 0] {shape = (16, 64), dims = (0, 1)} : tile<16x64xf32>
      store %C[16, 0], %t {dims = (0, 1)}
      %row_1 = load %P[%k] {shape = (), dims = (none,)} : i32
      %p = cmp %row_1, 0 {predicate = "ge"} : bool
      if %p then {
        store %S[0, 0], %ahead, slot = %slot {dims = (0, 1)}
        copy %A[0, 0], %T[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        %s = load %S[0, 0], slot = %slot {shape = (16, 64), dims = (0, 1)} : tile<16x64xf32>
        store %C[0, 0], %s {dims = (0, 1)}
      } orelse {
      }
      %4 = add %k, 2 : i32
      %5 = cmp %4, 9 {predicate = "lt"} : bool
      %6 = if %5 : tile<16x64xf32> then {
        %row_2 = load %P[%4] {shape = (), dims = (none,)} : i32
        %p_ahead_1 = cmp %row_2, 0 {predicate = "ge"} : bool
        %7 = if %p_ahead_1 : tile<16x64xf32> then {
          %S_2 = load %A[%row_2, 0] {shape = (16, 64), dims = (0, 1)} : tile<16x64xf32>
          yield %S_2
        } orelse {
          %8 = splat 0.0 {shape = (16, 64)} : tile<16x64xf32>
          yield %8
        }
        yield %7
      } orelse {
        %9 = splat 0.0 {shape = (16, 64)} : tile<16x64xf32>
        yield %9
      }
      yield %6
    }
  }
}
