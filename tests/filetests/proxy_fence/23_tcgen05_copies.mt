// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_100a
// Scales that threads have written to shared memory go to tensor memory: a fence in front of the barrier.
thread kernel @tensor_copies() attrs {threads = 128} {
  %S = alloc {type_ = shared<16x32xf32>}
  %done = alloc {type_ = shared<1xu64>}
  %slot = alloc {type_ = shared<1xu32>}
  %s = buffer_address %S
  %place = buffer_address %slot
  %memory = tensor_memory_address %place, %slot
  %scales = tensor_alloc %memory {type_ = tmem<128x4xu8>, column = 0, stride = 4}
  %tid = special {register = "tid.x"}
  %lead = cmp %tid, 0 {predicate = "eq"}
  %bar = buffer_address %done
  if %lead then {
    mbarrier_init %bar, %done {count = 1}
  } orelse {
  }
  %low = and %s, 262143
  %bits = shr %low, 4
  %wide = cast %bits {to = i64}
  %image = or %wide, 70403103916032:i64
  %byte = mul %tid, 16
  %at = add %s, %byte
  %v = pick 1.0 {indices = (0 * 4,)}
  store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  if %lead then {
    tensor_copies %memory, %image, %done, %scales, %S {offsets = (0,), columns = (0,)}
    tcgen05_commit %bar, %done
  } orelse {
  }
}

// ----
thread kernel @tensor_copies() attrs {threads = 128, shared_bytes = 2068} {
  %S = alloc {type_ = shared<16x32xf32>, offset = 0, bytes = 2048} : shared<16x32xf32>
  %done = alloc {type_ = shared<1xu64>, offset = 2048, bytes = 8} : shared<1xu64>
  %slot = alloc {type_ = shared<1xu32>, offset = 2064, bytes = 4} : shared<1xu32>
  %s = buffer_address %S : i32
  %place = buffer_address %slot : i32
  %memory = tensor_memory_address %place, %slot : i32
  %scales = tensor_alloc %memory {type_ = tmem<128x4xu8>, column = 0, stride = 4} : tmem<128x4xu8>
  %tid = special {register = "tid.x"} : i32
  %lead = cmp %tid, 0 {predicate = "eq"} : bool
  %bar = buffer_address %done : i32
  if %lead then {
    mbarrier_init %bar, %done {count = 1}
  } orelse {
  }
  %low = and %s, 262143 : i32
  %bits = shr %low, 4 : i32
  %wide = cast %bits {to = i64} : i64
  %image = or %wide, 70403103916032:i64 : i64
  %byte = mul %tid, 16 : i32
  %at = add %s, %byte : i32
  %v = pick 1.0 {indices = (0, 0, 0, 0)} : regs<4xf32>
  store_mem %at, %v, %S {space = "shared", width = 4, address_of = (0,), offsets = (0,)}
  proxy_fence
  barrier
  if %lead then {
    tensor_copies %memory, %image, %done, %scales, %S {offsets = (0,), columns = (0,)}
    tcgen05_commit %bar, %done
  } orelse {
  }
}
