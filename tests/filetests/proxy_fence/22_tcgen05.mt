// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// From tensor memory through registers and shared memory to the copy engine: only the fence of the store. Tensor
// memory needs none; the scales that tcgen05.cp reads from shared memory do, as products' operands do.
thread kernel @tcgen05(%C: tensor<64x32xf32>) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0),)} {
  %S = alloc {type_ = shared<16x32xf32>}
  %s = buffer_address %S
  %d = tensor_alloc 0 {type_ = tmem<128x4xf32>, column = 0, stride = 4}
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
  if %lead then {
    tensor_products 0:i64, 0:i64, 0, false, %ring, %d, [%S, %S], [] {kind = "tf32", instructions = (0,), d_offsets = (0,), a_offsets = (0,), b_offsets = (0,)}
    tcgen05_commit %bar, %ring
  } orelse {
  }
  mbarrier_wait %bar, %ring, 0
  tcgen05_fence {side = "after"}
  %x = tensor_registers 0, %d {dtype = f32, columns = (0,), counts = (4,)}
  tcgen05_wait {kind = "ld"}
  store_mem %at, %x, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  %put1 = tma_store %s, [0, 0], %S, %C, predicate = %lead {map = "C_map"}
  %group1 = join %put1
  wait %group1 {reads = true}
}

// ----
thread kernel @tcgen05(%C: tensor<64x32xf32>) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0),), shared_bytes = 2056} {
  %S = alloc {type_ = shared<16x32xf32>, offset = 0, bytes = 2048} : shared<16x32xf32>
  %s = buffer_address %S : i32
  %d = tensor_alloc 0 {type_ = tmem<128x4xf32>, column = 0, stride = 4} : tmem<128x4xf32>
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
  if %lead then {
    tensor_products 0:i64, 0:i64, 0, false, %ring, %d, [%S, %S] {kind = "tf32", instructions = (0,), d_offsets = (0,), a_offsets = (0,), b_offsets = (0,)}
    tcgen05_commit %bar, %ring
  } orelse {
  }
  mbarrier_wait %bar, %ring, 0
  tcgen05_fence {side = "after"}
  %x = tensor_registers 0, %d {dtype = f32, columns = (0,), counts = (4,)} : regs<4xf32>
  tcgen05_wait {kind = "ld"}
  store_mem %at, %x, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  proxy_fence
  barrier
  %put1 = tma_store %s, [0, 0], %S, %C, predicate = %lead {map = "C_map"} : token<bulk>
  %group1 = join %put1 : token<bulk>
  wait %group1 {reads = true, pending = 0}
}
