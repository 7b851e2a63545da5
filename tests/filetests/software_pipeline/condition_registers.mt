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
    %0 = cmp %row, 0 {predicate = "ge"} : bool
    %1 = if %0 : tile<16x64xf32> then {
      %S_1 = load %A[%row, 0] {shape = (16, 64), dims = (0, 1)} : tile<16x64xf32>
      yield %S_1
    } orelse {
      %2 = splat 0.0 {shape = (16, 64)} : tile<16x64xf32>
      yield %2
    }
    %3 = for 0, 9, 2, [%1] : tile<16x64xf32> (%k: i32, %ahead: tile<16x64xf32>) {
      %4 = floordiv %k, 2 : i32
      %slot = floormod %4, 2 : i32
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
      %5 = add %4, 1 : i32
      %6 = cmp %5, 5 {predicate = "lt"} : bool
      %7 = if %6 : tile<16x64xf32> then {
        %8 = mul %5, 2 : i32
        %row_2 = load %P[%8] {shape = (), dims = (none,)} : i32
        %9 = cmp %row_2, 0 {predicate = "ge"} : bool
        %10 = if %9 : tile<16x64xf32> then {
          %S_2 = load %A[%row_2, 0] {shape = (16, 64), dims = (0, 1)} : tile<16x64xf32>
          yield %S_2
        } orelse {
          %11 = splat 0.0 {shape = (16, 64)} : tile<16x64xf32>
          yield %11
        }
        yield %10
      } orelse {
        %12 = splat 0.0 {shape = (16, 64)} : tile<16x64xf32>
        yield %12
      }
      yield %7
    }
  }
}
