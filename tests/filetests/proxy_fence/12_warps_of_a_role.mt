// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// The warp that reads is another one of the same role as the one that copies: a fence before it arrives. The one that
// copies reads as well, and has its own.
thread kernel @warps_of_a_role(%A: tensor<16x32xf32>, %O: tensor<128xf32>, %P: tensor<128xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (16, 32), 0),), producer_threads = 128} {
  %S = alloc {type_ = shared<16x32xf32>}
  %s = buffer_address %S
  %tid = special {register = "tid.x"}
  %lead = cmp %tid, 0 {predicate = "eq"}
  %lane = and %tid, 31
  %byte = mul %lane, 16
  %at = add %s, %byte
  %v = pick 1.0 {indices = (0 * 4,)}
  %ring = alloc {type_ = shared<2xu64>}
  %bar = buffer_address %ring
  %bar1 = add %bar, 8
  %g = global_address %O
  %gb = cast %byte {to = i64}
  %ga = add %g, %gb
  %h = global_address %P
  %ha = add %h, %gb
  %zero = cmp %lane, 0 {predicate = "eq"}
  if %lead then {
    mbarrier_init %bar, %ring {count = 1}
    mbarrier_init %bar1, %ring {count = 2}
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
      tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %elected {map = "A_map", free = true}
      mbarrier_wait %bar, %ring, 0
      %x0 = load_mem %at, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)}
      warp_barrier
      mbarrier_arrive %bar1, %ring, predicate = %zero
      mbarrier_wait %bar1, %ring, 0
      mbarrier_expect %bar, %ring, predicate = %elected {bytes = 2048}
      tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %elected {map = "A_map", free = true}
      mbarrier_wait %bar, %ring, 1
      store_mem %ga, %x0, %O {space = "global", width = 4, address_of = (0,), offsets = (0,)}
    } orelse {
    }
    %two = cmp %warp, 5 {predicate = "eq"}
    if %two then {
      mbarrier_wait %bar, %ring, 0
      %x1 = load_mem %at, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)}
      warp_barrier
      mbarrier_arrive %bar1, %ring, predicate = %zero
      store_mem %ha, %x1, %P {space = "global", width = 4, address_of = (0,), offsets = (0,)}
    } orelse {
    }
  } orelse {
  }
}

// ----
thread kernel @warps_of_a_role(%A: tensor<16x32xf32>, %O: tensor<128xf32>, %P: tensor<128xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (16, 32), 0),), producer_threads = 128, shared_bytes = 2064} {
  %S = alloc {type_ = shared<16x32xf32>, offset = 0, bytes = 2048} : shared<16x32xf32>
  %s = buffer_address %S : i32
  %tid = special {register = "tid.x"} : i32
  %lead = cmp %tid, 0 {predicate = "eq"} : bool
  %lane = and %tid, 31 : i32
  %byte = mul %lane, 16 : i32
  %at = add %s, %byte : i32
  %v = pick 1.0 {indices = (0, 0, 0, 0)} : regs<4xf32>
  %ring = alloc {type_ = shared<2xu64>, offset = 2048, bytes = 16} : shared<2xu64>
  %bar = buffer_address %ring : i32
  %bar1 = add %bar, 8 : i32
  %g = global_address %O : i64
  %gb = cast %byte {to = i64} : i64
  %ga = add %g, %gb : i64
  %h = global_address %P : i64
  %ha = add %h, %gb : i64
  %zero = cmp %lane, 0 {predicate = "eq"} : bool
  if %lead then {
    mbarrier_init %bar, %ring {count = 1}
    mbarrier_init %bar1, %ring {count = 2}
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
      tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %elected {map = "A_map", free = true}
      mbarrier_wait %bar, %ring, 0
      %x0 = load_mem %at, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
      proxy_fence
      warp_barrier
      mbarrier_arrive %bar1, %ring, predicate = %zero
      mbarrier_wait %bar1, %ring, 0
      mbarrier_expect %bar, %ring, predicate = %elected {bytes = 2048}
      tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %elected {map = "A_map", free = true}
      mbarrier_wait %bar, %ring, 1
      store_mem %ga, %x0, %O {space = "global", width = 4, address_of = (0,), offsets = (0,)}
    } orelse {
    }
    %two = cmp %warp, 5 {predicate = "eq"} : bool
    if %two then {
      mbarrier_wait %bar, %ring, 0
      %x1 = load_mem %at, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
      proxy_fence
      warp_barrier
      mbarrier_arrive %bar1, %ring, predicate = %zero
      store_mem %ha, %x1, %P {space = "global", width = 4, address_of = (0,), offsets = (0,)}
    } orelse {
    }
  } orelse {
  }
}
