// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// Both branches copy what was written before: one fence in front of them.
thread kernel @both_branches_copy(%C: tensor<64x32xf32>, %n: i32) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0),)} {
  %S = alloc {type_ = shared<16x32xf32>}
  %s = buffer_address %S
  %tid = special {register = "tid.x"}
  %lead = cmp %tid, 0 {predicate = "eq"}
  %byte = mul %tid, 16
  %at = add %s, %byte
  %v = pick 1.0 {indices = (0 * 4,)}
  store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  %p = cmp %n, 0 {predicate = "gt"}
  if %p then {
    barrier
    %put1 = tma_store %s, [0, 0], %S, %C, predicate = %lead {map = "C_map"}
    %group1 = join %put1
    wait %group1 {reads = true}
  } orelse {
    barrier
    %put2 = tma_store %s, [0, 16], %S, %C, predicate = %lead {map = "C_map"}
    %group2 = join %put2
    wait %group2 {reads = true}
  }
}

// ----
thread kernel @both_branches_copy(%C: tensor<64x32xf32>, %n: i32) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0),), shared_bytes = 2048} {
  %S = alloc {type_ = shared<16x32xf32>, offset = 0, bytes = 2048} : shared<16x32xf32>
  %s = buffer_address %S : i32
  %tid = special {register = "tid.x"} : i32
  %lead = cmp %tid, 0 {predicate = "eq"} : bool
  %byte = mul %tid, 16 : i32
  %at = add %s, %byte : i32
  %v = pick 1.0 {indices = (0, 0, 0, 0)} : regs<4xf32>
  store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  %p = cmp %n, 0 {predicate = "gt"} : bool
  proxy_fence
  if %p then {
    barrier
    %put1 = tma_store %s, [0, 0], %S, %C, predicate = %lead {map = "C_map"} : token<bulk>
    %group1 = join %put1 : token<bulk>
    wait %group1 {reads = true, pending = 0}
  } orelse {
    barrier
    %put2 = tma_store %s, [0, 16], %S, %C, predicate = %lead {map = "C_map"} : token<bulk>
    %group2 = join %put2 : token<bulk>
    wait %group2 {reads = true, pending = 0}
  }
}
