// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// The write at an iteration's end, the copy at the next one's beginning: one fence an iteration.
thread kernel @loop_carried(%A: tensor<16x32xf32>, %C: tensor<64x32xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (16, 32), 0), ("C_map", "C", (16, 32), 0),)} {
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
  for 0, 3, 1 (%k: i32) {
    %row = mul %k, 16
    %put1 = tma_store %s, [0, %row], %S, %C, predicate = %lead {map = "C_map"}
    %group1 = join %put1
    wait %group1 {reads = true}
    store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  }
}

// ----
thread kernel @loop_carried(%A: tensor<16x32xf32>, %C: tensor<64x32xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (16, 32), 0), ("C_map", "C", (16, 32), 0)), shared_bytes = 2056} {
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
  for 0, 3, 1 (%k: i32) {
    %row = mul %k, 16 : i32
    proxy_fence
    barrier
    %put1 = tma_store %s, [0, %row], %S, %C, predicate = %lead {map = "C_map"} : token<bulk>
    %group1 = join %put1 : token<bulk>
    wait %group1 {reads = true, pending = 0}
    barrier
    store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  }
}
