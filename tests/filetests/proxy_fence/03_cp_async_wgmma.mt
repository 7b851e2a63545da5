// pass: allocate_shared_memory, thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// cp.async writes through the generic proxy, when it is waited for: the fence stands behind the wait.
thread kernel @cp_async_wgmma(%B: tensor<64x16xbf16>) attrs {threads = 128} {
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
  %b = global_address %B
  %wb = cast %byte {to = i64}
  %from = add %b, %wb
  %copy = cp_async %at, %from, %S, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %t = join %copy
  wait %t
  %c1, %m1 = wgmma %d, %d, [%S] {dtypes = (bf16, bf16), into = f32, n = 8, k = 16, a_offsets = (0,), b_offsets = (0,)}
  %r1 = await %c1, %m1
}

// ----
thread kernel @cp_async_wgmma(%B: tensor<64x16xbf16>) attrs {threads = 128, shared_bytes = 2048} {
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
  %b = global_address %B : i64
  %wb = cast %byte {to = i64} : i64
  %from = add %b, %wb : i64
  %copy = cp_async %at, %from, %S, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %t = join %copy : token
  wait %t {pending = 0}
  proxy_fence
  barrier
  %c1, %m1 = wgmma %d, %d, [%S] {dtypes = (bf16, bf16), into = f32, n = 8, k = 16, a_offsets = (0,), b_offsets = (0,)} : regs<4xf32>, token<wgmma>
  %r1 = await %c1, %m1 {pending = 0} : regs<4xf32>
}
