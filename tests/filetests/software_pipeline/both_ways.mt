// What LDS-DMA can copy goes ahead by N - 1 iterations, the rest by one, in registers.
// pass: software_pipeline
// target: gfx950
tile kernel @gemm(%A: tensor<64xKxf16>, %W: tensor<Gx64xf32>, %C: tensor<64x64xf32>) dims(K = %K: i32, G = %G: i32) facts {K = 16} attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xf16>}
    %Ws = alloc {type_ = shared<64xf32>}
    %zero = splat 0.0 {shape = (64, 64)}
    %n = floordiv %K, 32
    %acc = for 0, %n, 1, [%zero] {kind = "pipelined", stages = 3} (%k: i32, %c: tile<64x64xf32>) {
      %at = mul %k, 32
      copy %A[0, %at], %As[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %W[%k, 0], %Ws[0] {shape = (64,), src_dims = (none, 0), dst_dims = (0,)}
      %d = gemm %As[0, 0], %As[0, 0], %c {transpose_b = true}
      %w = load %Ws[0] {shape = (64,), dims = (0,)}
      %x = expand %w {dim = 1, size = 64}
      %e = mul %d, %x
      yield %e
    }
    store %C[0, 0], %acc {dims = (0, 1)}
  }
}

// ----
tile kernel @gemm(%A: tensor<64xKxf16>, %W: tensor<Gx64xf32>, %C: tensor<64x64xf32>) dims(K = %K: i32, G = %G: i32) facts {K = 16} attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<3 versions x 64x32xf16>} : shared<3 versions x 64x32xf16>
    %Ws = alloc {type_ = shared<3 versions x 64xf32>} : shared<3 versions x 64xf32>
    %zero = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %n = floordiv %K, 32 : i32
    %0 = cmp 0, %n {predicate = "lt"} : bool
    %1 = if %0 : token then {
      %2 = async_copy %A[0, 0], %As[0, 0], dst_slot = 0 {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)} : token
      yield %2
    } orelse {
      %3 = no_token : token
      yield %3
    }
    %4 = join %1 : token
    %5 = cmp 0, %n {predicate = "lt"} : bool
    %6 = if %5 : tile<64xf32> then {
      %Ws_1 = load %W[0, 0] {shape = (64,), dims = (none, 0)} : tile<64xf32>
      yield %Ws_1
    } orelse {
      %7 = splat 0.0 {shape = (64,)} : tile<64xf32>
      yield %7
    }
    %8 = cmp 1, %n {predicate = "lt"} : bool
    %9 = if %8 : token then {
      %10 = async_copy %A[0, 32], %As[0, 0], dst_slot = 1 {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)} : token
      yield %10
    } orelse {
      %11 = no_token : token
      yield %11
    }
    %12 = join %9 : token
    %acc, %13, %14, %15 = for 0, %n, 1, [%zero, %6, %4, %12] : tile<64x64xf32>, tile<64xf32>, token, token (%k: i32, %c: tile<64x64xf32>, %ahead: tile<64xf32>, %flight: token, %flight_1: token) {
      wait %flight
      %slot = floormod %k, 3 : i32
      store %Ws[0], %ahead, slot = %slot {dims = (0,)}
      %16 = add %k, 1 : i32
      %17 = cmp %16, %n {predicate = "lt"} : bool
      %18 = if %17 : tile<64xf32> then {
        %Ws_2 = load %W[%16, 0] {shape = (64,), dims = (none, 0)} : tile<64xf32>
        yield %Ws_2
      } orelse {
        %19 = splat 0.0 {shape = (64,)} : tile<64xf32>
        yield %19
      }
      %20 = add %k, 2 : i32
      %slot_ahead = floormod %20, 3 : i32
      %21 = cmp %20, %n {predicate = "lt"} : bool
      %22 = if %21 : token then {
        %at_ahead = mul %20, 32 : i32
        %23 = async_copy %A[0, %at_ahead], %As[0, 0], dst_slot = %slot_ahead {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)} : token
        yield %23
      } orelse {
        %24 = no_token : token
        yield %24
      }
      %25 = join %22 : token
      %d = gemm %As[0, 0], %As[0, 0], %c, a_slot = %slot, b_slot = %slot {transpose_b = true} : tile<64x64xf32>
      %w = load %Ws[0], slot = %slot {shape = (64,), dims = (0,)} : tile<64xf32>
      %x = expand %w {dim = 1, size = 64} : tile<64x64xf32>
      %e = mul %d, %x : tile<64x64xf32>
      yield %e, %18, %flight_1, %25
    }
    wait %14
    wait %15
    store %C[0, 0], %acc {dims = (0, 1)}
  }
}
