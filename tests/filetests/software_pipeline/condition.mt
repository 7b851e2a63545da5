// pass: software_pipeline
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
    %0 = if %p_ahead : token then {
      %1 = async_copy %A[%row, 0], %S[0, 0], dst_slot = 0 {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)} : token
      yield %1
    } orelse {
      %2 = no_token : token
      yield %2
    }
    %3 = join %0 : token
    %4 = for 0, 9, 2, [%3] : token (%k: i32, %flight: token) {
      wait %flight
      %5 = floordiv %k, 2 : i32
      %slot = floormod %5, 2 : i32
      %6 = add %k, 2 : i32
      %7 = floordiv %6, 2 : i32
      %slot_ahead = floormod %7, 2 : i32
      %8 = cmp %6, 9 {predicate = "lt"} : bool
      %9 = if %8 : token then {
        %row_1 = load %P[%6] {shape = (), dims = (none,)} : i32
        %p_ahead_1 = cmp %row_1, 0 {predicate = "ge"} : bool
        %10 = if %p_ahead_1 : token then {
          %11 = async_copy %A[%row_1, 0], %S[0, 0], dst_slot = %slot_ahead {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)} : token
          yield %11
        } orelse {
          %12 = no_token : token
          yield %12
        }
        yield %10
      } orelse {
        %13 = no_token : token
        yield %13
      }
      %14 = join %9 : token
      %t = load %T[0, 0] {shape = (16, 64), dims = (0, 1)} : tile<16x64xf32>
      store %C[16, 0], %t {dims = (0, 1)}
      %row_2 = load %P[%k] {shape = (), dims = (none,)} : i32
      %p = cmp %row_2, 0 {predicate = "ge"} : bool
      if %p then {
        copy %A[0, 0], %T[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        %s = load %S[0, 0], slot = %slot {shape = (16, 64), dims = (0, 1)} : tile<16x64xf32>
        store %C[0, 0], %s {dims = (0, 1)}
      } orelse {
      }
      yield %14
    }
  }
}
