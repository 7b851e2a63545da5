// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// The copy engine overwrites what threads have read: each fences before it arrives (write after read).
thread kernel @read_then_tma_load(%A: tensor<16x32xf32>, %O: tensor<1024xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (16, 32), 0),), producer_threads = 128} {
  %S = alloc {type_ = shared<16x32xf32>}
  %s = buffer_address %S
  %tid = special {register = "tid.x"}
  %lead = cmp %tid, 0 {predicate = "eq"}
  %byte = mul %tid, 16
  %at = add %s, %byte
  %v = pick 1.0 {indices = (0 * 4,)}
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
    %x1 = load_mem %at, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)}
    mbarrier_arrive %bar1, %ring
    mbarrier_wait %bar, %ring, 1
    %g = global_address %O
    %gb = cast %byte {to = i64}
    %ga = add %g, %gb
    store_mem %ga, %x1, %O {space = "global", width = 4, address_of = (0,), offsets = (0,)}
  }
}

// ----
thread kernel @read_then_tma_load(%A: tensor<16x32xf32>, %O: tensor<1024xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (16, 32), 0),), producer_threads = 128, shared_bytes = 2064} {
  %S = alloc {type_ = shared<16x32xf32>, offset = 0, bytes = 2048} : shared<16x32xf32>
  %s = buffer_address %S : i32
  %tid = special {register = "tid.x"} : i32
  %lead = cmp %tid, 0 {predicate = "eq"} : bool
  %byte = mul %tid, 16 : i32
  %at = add %s, %byte : i32
  %v = pick 1.0 {indices = (0, 0, 0, 0)} : regs<4xf32>
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
    %x1 = load_mem %at, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
    proxy_fence
    mbarrier_arrive %bar1, %ring
    mbarrier_wait %bar, %ring, 1
    %g = global_address %O : i64
    %gb = cast %byte {to = i64} : i64
    %ga = add %g, %gb : i64
    store_mem %ga, %x1, %O {space = "global", width = 4, address_of = (0,), offsets = (0,)}
  }
}
