// pass: insert_bulk_store_waits, allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// A store by the copy engine without a commit or a wait: the handshake is completed behind it.
thread kernel @handshake(%C: tensor<64x32xf32>) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0),)} {
  %S = alloc {type_ = shared<16x32xf32>}
  %s = buffer_address %S
  %tid = special {register = "tid.x"}
  %lead = cmp %tid, 0 {predicate = "eq"}
  %byte = mul %tid, 16
  %at = add %s, %byte
  %v = pick 1.0 {indices = (0 * 4,)}
  store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  %put = tma_store %s, [0, 0], %S, %C, predicate = %lead {map = "C_map"}
  store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @handshake(%C: tensor<64x32xf32>) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0),), shared_bytes = 2048} {
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
  %put = tma_store %s, [0, 0], %S, %C, predicate = %lead {map = "C_map"} : token<bulk>
  %0 = join %put : token<bulk>
  wait %0 {reads = true, pending = 0}
  barrier
  store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
}
