// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// Arriving and announcing bytes are accesses of barrier words, which copies need no fence for.
thread kernel @expect(%A: tensor<16x32xf32>, %O: tensor<1024xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (16, 32), 0),)} {
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
  barrier
  mbarrier_expect %bar, %ring, predicate = %lead {bytes = 2048}
  tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %lead {map = "A_map"}
  mbarrier_wait %bar, %ring, 0
  %x1 = load_mem %at, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)}
  %g = global_address %O
  %gb = cast %byte {to = i64}
  %ga = add %g, %gb
  store_mem %ga, %x1, %O {space = "global", width = 4, address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @expect(%A: tensor<16x32xf32>, %O: tensor<1024xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (16, 32), 0),), shared_bytes = 2056} {
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
  barrier
  mbarrier_expect %bar, %ring, predicate = %lead {bytes = 2048}
  tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %lead {map = "A_map"}
  mbarrier_wait %bar, %ring, 0
  %x1 = load_mem %at, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
  %g = global_address %O : i64
  %gb = cast %byte {to = i64} : i64
  %ga = add %g, %gb : i64
  store_mem %ga, %x1, %O {space = "global", width = 4, address_of = (0,), offsets = (0,)}
}
