// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// Consumers write, the producer's warp has it copied: the fence is the consumers', before they arrive; the producer
// needs none.
thread kernel @other_role_stores(%C: tensor<64x32xf32>) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0),), producer_threads = 128} {
  %S = alloc {type_ = shared<16x32xf32>}
  %s = buffer_address %S
  %tid = special {register = "tid.x"}
  %lead = cmp %tid, 0 {predicate = "eq"}
  %byte = mul %tid, 16
  %at = add %s, %byte
  %v = pick 1.0 {indices = (0 * 4,)}
  %ring = alloc {type_ = shared<1xu64>}
  %bar = buffer_address %ring
  if %lead then {
    mbarrier_init %bar, %ring {count = 128}
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
      mbarrier_wait %bar, %ring, 0
      %put1 = tma_store %s, [0, 0], %S, %C, predicate = %elected {map = "C_map"}
      %group1 = join %put1
      wait %group1 {reads = true}
    } orelse {
    }
  } orelse {
    store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
    mbarrier_arrive %bar, %ring
  }
}

// ----
thread kernel @other_role_stores(%C: tensor<64x32xf32>) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0),), producer_threads = 128, shared_bytes = 2056} {
  %S = alloc {type_ = shared<16x32xf32>, offset = 0, bytes = 2048} : shared<16x32xf32>
  %s = buffer_address %S : i32
  %tid = special {register = "tid.x"} : i32
  %lead = cmp %tid, 0 {predicate = "eq"} : bool
  %byte = mul %tid, 16 : i32
  %at = add %s, %byte : i32
  %v = pick 1.0 {indices = (0, 0, 0, 0)} : regs<4xf32>
  %ring = alloc {type_ = shared<1xu64>, offset = 2048, bytes = 8} : shared<1xu64>
  %bar = buffer_address %ring : i32
  if %lead then {
    mbarrier_init %bar, %ring {count = 128}
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
      mbarrier_wait %bar, %ring, 0
      %put1 = tma_store %s, [0, 0], %S, %C, predicate = %elected {map = "C_map"} : token<bulk>
      %group1 = join %put1 : token<bulk>
      wait %group1 {reads = true, pending = 0}
    } orelse {
    }
  } orelse {
    store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
    proxy_fence
    mbarrier_arrive %bar, %ring
  }
}
