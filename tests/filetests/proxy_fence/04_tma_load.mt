// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// What the copy engine has written needs no fence, neither for wgmma nor for loads.
thread kernel @tma_load(%A: tensor<64x16xbf16>, %O: tensor<1024xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (64, 16), 32),)} {
  %S = alloc {type_ = shared<64x16xbf16>}
  %s = buffer_address %S
  %tid = special {register = "tid.x"}
  %lead = cmp %tid, 0 {predicate = "eq"}
  %byte = mul %tid, 16
  %at = add %s, %byte
  %v = pick 1.0:bf16 {indices = (0 * 8,)}
  %low = and %s, 262143
  %bits = shr %low, 4
  %wide = cast %bits {to = i64}
  %d = or %wide, -4611685949707845632:i64
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
  %c1, %m1 = wgmma %d, %d, [%S] {dtypes = (bf16, bf16), into = f32, n = 8, k = 16, a_offsets = (0,), b_offsets = (0,)}
  %r1 = await %c1, %m1
  %x9 = load_mem %at, %S {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)}
  %y9 = pick %x9 {indices = (0,)}
  %z9 = cast %y9 {to = f32}
  %g = global_address %O
  %gb = cast %byte {to = i64}
  %ga = add %g, %gb
  store_mem %ga, %z9, %O {space = "global", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @tma_load(%A: tensor<64x16xbf16>, %O: tensor<1024xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (64, 16), 32),), shared_bytes = 2056} {
  %S = alloc {type_ = shared<64x16xbf16>, offset = 0, bytes = 2048} : shared<64x16xbf16>
  %s = buffer_address %S : i32
  %tid = special {register = "tid.x"} : i32
  %lead = cmp %tid, 0 {predicate = "eq"} : bool
  %byte = mul %tid, 16 : i32
  %at = add %s, %byte : i32
  %v = pick 1.0:bf16 {indices = (0 * 8,)} : regs<8xbf16>
  %low = and %s, 262143 : i32
  %bits = shr %low, 4 : i32
  %wide = cast %bits {to = i64} : i64
  %d = or %wide, -4611685949707845632:i64 : i64
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
  %c1, %m1 = wgmma %d, %d, [%S] {dtypes = (bf16, bf16), into = f32, n = 8, k = 16, a_offsets = (0,), b_offsets = (0,)} : regs<4xf32>, token<wgmma>
  %r1 = await %c1, %m1 {pending = 0} : regs<4xf32>
  %x9 = load_mem %at, %S {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %y9 = pick %x9 {indices = (0,)} : bf16
  %z9 = cast %y9 {to = f32} : f32
  %g = global_address %O : i64
  %gb = cast %byte {to = i64} : i64
  %ga = add %g, %gb : i64
  store_mem %ga, %z9, %O {space = "global", address_of = (0,), offsets = (0,)}
}
