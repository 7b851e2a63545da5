// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// Scales that threads have written to shared memory go to tensor memory: a fence in front of the barrier.
thread kernel @tcgen05_scales() attrs {threads = 128} {
  %S = alloc {type_ = shared<16x32xf32>}
  %s = buffer_address %S
  %tid = special {register = "tid.x"}
  %lead = cmp %tid, 0 {predicate = "eq"}
  %byte = mul %tid, 16
  %at = add %s, %byte
  %v = pick 1.0 {indices = (0 * 4,)}
  store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  tcgen05_cp 0, 0:i64, [%S], predicate = %lead
}

// ----
thread kernel @tcgen05_scales() attrs {threads = 128, shared_bytes = 2048} {
  %S = alloc {type_ = shared<16x32xf32>, offset = 0, bytes = 2048} : shared<16x32xf32>
  %s = buffer_address %S : i32
  %tid = special {register = "tid.x"} : i32
  %lead = cmp %tid, 0 {predicate = "eq"} : bool
  %byte = mul %tid, 16 : i32
  %at = add %s, %byte : i32
  %v = pick 1.0 {indices = (0, 0, 0, 0)} : regs<4xf32>
  store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  proxy_fence
  barrier
  tcgen05_cp 0, 0:i64, [%S], predicate = %lead
}
