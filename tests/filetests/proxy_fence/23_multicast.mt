// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// A copy for both CTAs of a cluster overwrites what threads of either have read: one half of the fence in front of the
// cluster's barrier, the other half behind it.
thread kernel @multicast(%A: tensor<16x32xf32>, %O: tensor<1024xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (16, 32), 0),), cluster = (2, 1, 1)} {
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
    mbarrier_init %bar, %ring {count = 1}
    mbarrier_init_fence
  } orelse {
  }
  cluster_barrier
  %rank = special {register = "cluster_ctarank"}
  %zero = cmp %rank, 0 {predicate = "eq"}
  %first = and %zero, %lead
  mbarrier_expect %bar, %ring, predicate = %lead {bytes = 2048}
  tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %first, multicast = 3 {map = "A_map"}
  mbarrier_wait %bar, %ring, 0
  %x1 = load_mem %at, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)}
  cluster_barrier
  mbarrier_expect %bar, %ring, predicate = %lead {bytes = 2048}
  tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %first, multicast = 3 {map = "A_map"}
  mbarrier_wait %bar, %ring, 1
  %row = mul %rank, 2048
  %mine = add %byte, %row
  %g = global_address %O
  %gb = cast %mine {to = i64}
  %ga = add %g, %gb
  store_mem %ga, %x1, %O {space = "global", width = 4, address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @multicast(%A: tensor<16x32xf32>, %O: tensor<1024xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (16, 32), 0),), cluster = (2, 1, 1), shared_bytes = 2056} {
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
    mbarrier_init %bar, %ring {count = 1}
    mbarrier_init_fence
  } orelse {
  }
  cluster_barrier
  %rank = special {register = "cluster_ctarank"} : i32
  %zero = cmp %rank, 0 {predicate = "eq"} : bool
  %first = and %zero, %lead : bool
  mbarrier_expect %bar, %ring, predicate = %lead {bytes = 2048}
  tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %first, multicast = 3 {map = "A_map"}
  mbarrier_wait %bar, %ring, 0
  %x1 = load_mem %at, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
  proxy_fence {form = "release"}
  cluster_barrier
  mbarrier_expect %bar, %ring, predicate = %lead {bytes = 2048}
  proxy_fence {form = "acquire"}
  tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %first, multicast = 3 {map = "A_map"}
  mbarrier_wait %bar, %ring, 1
  %row = mul %rank, 2048 : i32
  %mine = add %byte, %row : i32
  %g = global_address %O : i64
  %gb = cast %mine {to = i64} : i64
  %ga = add %g, %gb : i64
  store_mem %ga, %x1, %O {space = "global", width = 4, address_of = (0,), offsets = (0,)}
}
