// pass: software_pipeline
tile kernel @gemm(%A: tensor<64xKxf16>, %B: tensor<64xKxf16>, %C: tensor<64x64xf32>) dims(K = %K: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xf16>}
    %Bs = alloc {type_ = shared<64x32xf16>}
    %zero = splat 0.0 {shape = (64, 64)}
    %n = floordiv %K, 32
    %acc = for 0, %n, 1, [%zero] {kind = "pipelined", stages = 3} (%k: i32, %c: tile<64x64xf32>) {
      %at = mul %k, 32
      copy %A[0, %at], %As[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[0, %at], %Bs[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      %d = gemm %As[0, 0], %Bs[0, 0], %c {transpose_b = true}
      yield %d
    }
    store %C[0, 0], %acc {dims = (0, 1)}
  }
}

// ----
tile kernel @gemm(%A: tensor<64xKxf16>, %B: tensor<64xKxf16>, %C: tensor<64x64xf32>) dims(K = %K: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<3 versions x 64x32xf16>} : shared<3 versions x 64x32xf16>
    %Bs = alloc {type_ = shared<3 versions x 64x32xf16>} : shared<3 versions x 64x32xf16>
    %zero = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %n = floordiv %K, 32 : i32
    %0 = cmp 0, %n {predicate = "lt"} : bool
    %1, %2 = if %0 : token, token then {
      %3 = async_copy %A[0, 0], %As[0, 0], dst_slot = 0 {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)} : token
      %4 = async_copy %B[0, 0], %Bs[0, 0], dst_slot = 0 {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)} : token
      yield %3, %4
    } orelse {
      %5 = no_token : token
      %6 = no_token : token
      yield %5, %6
    }
    %7 = join %1, %2 : token
    %8 = cmp 1, %n {predicate = "lt"} : bool
    %9, %10 = if %8 : token, token then {
      %11 = async_copy %A[0, 32], %As[0, 0], dst_slot = 1 {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)} : token
      %12 = async_copy %B[0, 32], %Bs[0, 0], dst_slot = 1 {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)} : token
      yield %11, %12
    } orelse {
      %13 = no_token : token
      %14 = no_token : token
      yield %13, %14
    }
    %15 = join %9, %10 : token
    %acc, %16, %17 = for 0, %n, 1, [%zero, %7, %15] : tile<64x64xf32>, token, token (%k: i32, %c: tile<64x64xf32>, %flight: token, %flight_1: token) {
      wait %flight
      %slot = floormod %k, 3 : i32
      %18 = add %k, 2 : i32
      %slot_ahead = floormod %18, 3 : i32
      %19 = cmp %18, %n {predicate = "lt"} : bool
      %20, %21 = if %19 : token, token then {
        %at_ahead = mul %18, 32 : i32
        %22 = async_copy %A[0, %at_ahead], %As[0, 0], dst_slot = %slot_ahead {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)} : token
        %23 = async_copy %B[0, %at_ahead], %Bs[0, 0], dst_slot = %slot_ahead {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)} : token
        yield %22, %23
      } orelse {
        %24 = no_token : token
        %25 = no_token : token
        yield %24, %25
      }
      %26 = join %20, %21 : token
      %d = gemm %As[0, 0], %Bs[0, 0], %c, a_slot = %slot, b_slot = %slot {transpose_b = true} : tile<64x64xf32>
      yield %d, %flight_1, %26
    }
    store %C[0, 0], %acc {dims = (0, 1)}
  }
}
