// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// The copy engine overwrites what wgmma has read: the wait and the arrival are enough.
thread kernel @wgmma_then_tma_load(%A: tensor<64x16xbf16>) attrs {threads = 128, tensor_maps = (("A_map", "A", (64, 16), 32),), producer_threads = 128} {
  %S = alloc {type_ = shared<64x16xbf16>}
  %s = buffer_address %S
  %tid = special {register = "tid.x"}
  %lead = cmp %tid, 0 {predicate = "eq"}
  %byte = mul %tid, 16
  %at = add %s, %byte
  %v = pick 1.0:bf16 {indices = (0 * 8,)}
  %low = and %s, 262143
  %bits = shr %low, 4
  %wide = cast %bits {to = i64}
  %d = or %wide, -4611685949707845632:i64
  %ring = alloc {type_ = shared<2xu64>}
  %bar = buffer_address %ring
  %bar1 = add %bar, 8
  if %lead then {
    mbarrier_init %bar, %ring {count = 1}
    mbarrier_init %bar1, %ring {count = 128}
    mbarrier_init_fence
  } orelse {
  }
  barrier
  %warp = warp_index
  %ahead = cmp %warp, 4 {predicate = "ge"}
  by_role %ahead {teams = ((0, none), (1, 128))} then {
    %one = cmp %warp, 4 {predicate = "eq"}
    if %one then {
      %elected = elect
      mbarrier_expect %bar, %ring, predicate = %elected {bytes = 2048}
      tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %elected {map = "A_map"}
      mbarrier_wait %bar1, %ring, 0
      mbarrier_expect %bar, %ring, predicate = %elected {bytes = 2048}
      tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %elected {map = "A_map"}
    } orelse {
    }
  } orelse {
    mbarrier_wait %bar, %ring, 0
    %c1, %m1 = wgmma %d, %d, [%S] {dtypes = (bf16, bf16), into = f32, n = 8, k = 16, a_offsets = (0,), b_offsets = (0,)}
    %r1 = await %c1, %m1
    mbarrier_arrive %bar1, %ring
    mbarrier_wait %bar, %ring, 1
  }
}

// ----
thread kernel @wgmma_then_tma_load(%A: tensor<64x16xbf16>) attrs {threads = 128, tensor_maps = (("A_map", "A", (64, 16), 32),), producer_threads = 128, shared_bytes = 2064} {
  %S = alloc {type_ = shared<64x16xbf16>, offset = 0, bytes = 2048} : shared<64x16xbf16>
  %s = buffer_address %S : i32
  %tid = special {register = "tid.x"} : i32
  %lead = cmp %tid, 0 {predicate = "eq"} : bool
  %byte = mul %tid, 16 : i32
  %at = add %s, %byte : i32
  %v = pick 1.0:bf16 {indices = (0 * 8,)} : regs<8xbf16>
  %low = and %s, 262143 : i32
  %bits = shr %low, 4 : i32
  %wide = cast %bits {to = i64} : i64
  %d = or %wide, -4611685949707845632:i64 : i64
  %ring = alloc {type_ = shared<2xu64>, offset = 2048, bytes = 16} : shared<2xu64>
  %bar = buffer_address %ring : i32
  %bar1 = add %bar, 8 : i32
  if %lead then {
    mbarrier_init %bar, %ring {count = 1}
    mbarrier_init %bar1, %ring {count = 128}
    mbarrier_init_fence
  } orelse {
  }
  barrier
  %warp = warp_index : i32
  %ahead = cmp %warp, 4 {predicate = "ge"} : bool
  by_role %ahead {teams = ((0, none), (1, 128))} then {
    %one = cmp %warp, 4 {predicate = "eq"} : bool
    if %one then {
      %elected = elect : bool
      mbarrier_expect %bar, %ring, predicate = %elected {bytes = 2048}
      tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %elected {map = "A_map"}
      mbarrier_wait %bar1, %ring, 0
      mbarrier_expect %bar, %ring, predicate = %elected {bytes = 2048}
      tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %elected {map = "A_map"}
    } orelse {
    }
  } orelse {
    mbarrier_wait %bar, %ring, 0
    %c1, %m1 = wgmma %d, %d, [%S] {dtypes = (bf16, bf16), into = f32, n = 8, k = 16, a_offsets = (0,), b_offsets = (0,)} : regs<4xf32>, token<wgmma>
    %r1 = await %c1, %m1 {pending = 0} : regs<4xf32>
    mbarrier_arrive %bar1, %ring
    mbarrier_wait %bar, %ring, 1
  }
}
