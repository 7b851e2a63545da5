// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_80
// Targets with one proxy: none, and those that the program has go (the assembler would refuse them).
thread kernel @sm_80(%O: tensor<1024xf32>) attrs {threads = 128} {
  %S = alloc {type_ = shared<16x32xf32>}
  %s = buffer_address %S
  %tid = special {register = "tid.x"}
  %lead = cmp %tid, 0 {predicate = "eq"}
  %byte = mul %tid, 16
  %at = add %s, %byte
  %v = pick 1.0 {indices = (0 * 4,)}
  store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  proxy_fence {space = "shared"}
  %other = xor %at, 16
  %x1 = load_mem %other, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)}
  %g = global_address %O
  %gb = cast %byte {to = i64}
  %ga = add %g, %gb
  store_mem %ga, %x1, %O {space = "global", width = 4, address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @sm_80(%O: tensor<1024xf32>) attrs {threads = 128, shared_bytes = 2048} {
  %S = alloc {type_ = shared<16x32xf32>, offset = 0, bytes = 2048} : shared<16x32xf32>
  %s = buffer_address %S : i32
  %tid = special {register = "tid.x"} : i32
  %lead = cmp %tid, 0 {predicate = "eq"} : bool
  %byte = mul %tid, 16 : i32
  %at = add %s, %byte : i32
  %v = pick 1.0 {indices = (0, 0, 0, 0)} : regs<4xf32>
  store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  %other = xor %at, 16 : i32
  barrier
  %x1 = load_mem %other, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
  %g = global_address %O : i64
  %gb = cast %byte {to = i64} : i64
  %ga = add %g, %gb : i64
  store_mem %ga, %x1, %O {space = "global", width = 4, address_of = (0,), offsets = (0,)}
}
