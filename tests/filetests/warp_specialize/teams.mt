// Either team has every second turn, from a slot on that is so many turns of the inner loop further. The second one
// arrives at the order barrier first.
// pass: warp_specialize
// target: sm_90a
tile kernel @turns(%A: tensor<512x256xbf16>, %B: tensor<64x256xbf16>, %C: tensor<512x64xf32>, %n: i32) attrs {threads = 256} {
  launch 2, 1, 1 {threads = 256} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %Bs = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    for %bx, 8, 2 {teams = 2} (%t: i32) {
      %m = mul %t, 64 : i32
      %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
      %r = for 0, %n, 1, [%z] {kind = "pipelined", stages = 3} (%k: i32, %c: tile<64x64xf32>) {
        %o = mul %k, 64 : i32
        copy %A[%m, %o], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        copy %B[0, %o], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        %c1 = gemm %As[0, 0], %Bs[0, 0], %c {transpose_b = true} : tile<64x64xf32>
        yield %c1
      }
      store %C[%m, 0], %r {dims = (0, 1)}
      yield
    }
  }
}

// ----
tile kernel @turns(%A: tensor<512x256xbf16>, %B: tensor<64x256xbf16>, %C: tensor<512x64xf32>, %n: i32) attrs {threads = 256, producer_threads = 128} {
  launch 2, 1, 1 {threads = 256} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<3 versions x 64x64xbf16>} : shared<3 versions x 64x64xbf16>
    %Bs = alloc {type_ = shared<3 versions x 64x64xbf16>} : shared<3 versions x 64x64xbf16>
    %ring = mbarrier_pipeline %As, %Bs {slots = 3, consumers = 128} : mbarrier_pipeline<3; As: shared<3 versions x 64x64xbf16>, Bs: shared<3 versions x 64x64xbf16>>
    warp_specialized producer {
      %0, %1 = for %bx, 8, 2, [0, 0] : i32, i32 (%t: i32, %slot: i32, %phase: i32) {
        %m = mul %t, 64 : i32
        %2, %3 = for 0, %n, 1, [%slot, %phase] : i32, i32 (%k: i32, %slot_1: i32, %phase_1: i32) {
          %o = mul %k, 64 : i32
          producer_acquire %ring, %slot_1, %phase_1
          producer_expect_tx %ring, %slot_1
          tma_copy %A[%m, %o], %As, %ring, %slot_1 {src_dims = (0, 1)}
          tma_copy %B[0, %o], %Bs, %ring, %slot_1 {src_dims = (0, 1)}
          %4 = add %slot_1, 1 : i32
          %5 = cmp %4, 3 {predicate = "eq"} : bool
          %6 = xor %phase_1, 1 : i32
          %7 = select %5, %6, %phase_1 : i32
          %8 = select %5, 0, %4 : i32
          yield %8, %7
        }
        yield %2, %3
      }
    } consumer {
      %9 = in_groups {first = 0, count = 1} : bool
      warp_groups %9 {first = 0, count = 1, independent = true} then {
        %10 = cmp %bx, 8 {predicate = "lt"} : bool
        %11, %12 = if %10 : i32, i32 then {
          %m_1 = mul %bx, 64 : i32
          %13 = max %n, 0 : i32
          %14 = floordiv %13, 3 : i32
          %15 = mul %14, 3 : i32
          %16 = sub %13, %15 : i32
          %17 = and %14, 1 : i32
          yield %16, %17
        } orelse {
          yield 0, 0
        }
        %18 = add %bx, 2 : i32
        %19 = cmp 0, 1 {predicate = "eq"} : bool
        %20 = select %19, %11, 0 : i32
        %21 = select %19, %12, 0 : i32
        %22 = mul 0, 2 : i32
        %23 = add %bx, %22 : i32
        %24, %25 = for %23, 8, 4, [%20, %21] : i32, i32 (%t_1: i32, %slot_2: i32, %phase_2: i32) {
          %m_2 = mul %t_1, 64 : i32
          %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
          ping_pong_wait 0
          %r, %26, %27 = for 0, %n, 1, [%z, %slot_2, %phase_2] : tile<64x64xf32>, i32, i32 (%k_1: i32, %c: tile<64x64xf32>, %slot_3: i32, %phase_3: i32) {
            %o_1 = mul %k_1, 64 : i32
            consumer_wait %ring, %slot_3, %phase_3
            %c1, %28 = async_gemm %As[0, 0], %Bs[0, 0], %c, a_slot = %slot_3, b_slot = %slot_3 {transpose_b = true} : tile<64x64xf32>, token<wgmma>
            %c1_1 = await %c1, %28 : tile<64x64xf32>
            consumer_release %ring, %slot_3
            %29 = add %slot_3, 1 : i32
            %30 = cmp %29, 3 {predicate = "eq"} : bool
            %31 = xor %phase_3, 1 : i32
            %32 = select %30, %31, %phase_3 : i32
            %33 = select %30, 0, %29 : i32
            yield %c1_1, %33, %32
          }
          %34 = add 0, 1 : i32
          %35 = floormod %34, 2 : i32
          ping_pong_arrive %35
          store %C[%m_2, 0], %r {dims = (0, 1)}
          %36 = add %t_1, 2 : i32
          %37 = cmp %36, 8 {predicate = "lt"} : bool
          %38, %39 = if %37 : i32, i32 then {
            %m_3 = mul %36, 64 : i32
            %40 = max %n, 0 : i32
            %41 = add %26, %40 : i32
            %42 = floordiv %41, 3 : i32
            %43 = mul %42, 3 : i32
            %44 = sub %41, %43 : i32
            %45 = and %42, 1 : i32
            %46 = xor %27, %45 : i32
            yield %44, %46
          } orelse {
            yield %26, %27
          }
          yield %38, %39
        }
        yield
      } orelse {
        ping_pong_arrive 0
        %47 = cmp %bx, 8 {predicate = "lt"} : bool
        %48, %49 = if %47 : i32, i32 then {
          %m_4 = mul %bx, 64 : i32
          %50 = max %n, 0 : i32
          %51 = floordiv %50, 3 : i32
          %52 = mul %51, 3 : i32
          %53 = sub %50, %52 : i32
          %54 = and %51, 1 : i32
          yield %53, %54
        } orelse {
          yield 0, 0
        }
        %55 = add %bx, 2 : i32
        %56 = cmp 1, 1 {predicate = "eq"} : bool
        %57 = select %56, %48, 0 : i32
        %58 = select %56, %49, 0 : i32
        %59 = mul 1, 2 : i32
        %60 = add %bx, %59 : i32
        %61, %62 = for %60, 8, 4, [%57, %58] : i32, i32 (%t_2: i32, %slot_4: i32, %phase_4: i32) {
          %m_5 = mul %t_2, 64 : i32
          %z_1 = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
          ping_pong_wait 1
          %r_1, %63, %64 = for 0, %n, 1, [%z_1, %slot_4, %phase_4] : tile<64x64xf32>, i32, i32 (%k_2: i32, %c_1: tile<64x64xf32>, %slot_5: i32, %phase_5: i32) {
            %o_2 = mul %k_2, 64 : i32
            consumer_wait %ring, %slot_5, %phase_5
            %c1_2, %65 = async_gemm %As[0, 0], %Bs[0, 0], %c_1, a_slot = %slot_5, b_slot = %slot_5 {transpose_b = true} : tile<64x64xf32>, token<wgmma>
            %c1_3 = await %c1_2, %65 : tile<64x64xf32>
            consumer_release %ring, %slot_5
            %66 = add %slot_5, 1 : i32
            %67 = cmp %66, 3 {predicate = "eq"} : bool
            %68 = xor %phase_5, 1 : i32
            %69 = select %67, %68, %phase_5 : i32
            %70 = select %67, 0, %66 : i32
            yield %c1_3, %70, %69
          }
          %71 = add 1, 1 : i32
          %72 = floormod %71, 2 : i32
          ping_pong_arrive %72
          store %C[%m_5, 0], %r_1 {dims = (0, 1)}
          %73 = add %t_2, 2 : i32
          %74 = cmp %73, 8 {predicate = "lt"} : bool
          %75, %76 = if %74 : i32, i32 then {
            %m_6 = mul %73, 64 : i32
            %77 = max %n, 0 : i32
            %78 = add %63, %77 : i32
            %79 = floordiv %78, 3 : i32
            %80 = mul %79, 3 : i32
            %81 = sub %78, %80 : i32
            %82 = and %79, 1 : i32
            %83 = xor %64, %82 : i32
            yield %81, %83
          } orelse {
            yield %63, %64
          }
          yield %75, %76
        }
        yield
      }
    }
  }
}
