// The loop begins with the multiplication: wait and first fragments moved to the end of the iteration before.
// pass: spread_copies, prefetch_fragments
// target: sm_80
thread kernel @k(%A: tensor<MxKxbf16>, %C: tensor<16x16xf32>) dims(M = %M: i32, K = %K: i32) attrs {threads = 32} {
  %As = alloc {type_ = shared<3 versions x 16x32xbf16>, layout = shared<16x32xb16; 16:512; 32:16; swizzle 64>, bytes = 1024} : shared<3 versions x 16x32xbf16>
  %tid = special {register = "tid.x"} : i32
  %row = mul %tid, 64 : i32
  %a = global_address %A : i64
  %s = buffer_address %As : i32
  %here = add %s, %row : i32
  %z = pick 0.0 {indices = (0 * 8,)} : regs<8xf32>
  %t0 = no_token : token
  %j0 = join %t0 : token
  %j1 = join %t0 : token
  %c, %u0, %u1 = for 0, %K, 1, [%z, %j0, %j1] : regs<8xf32>, token, token (%k: i32, %acc: regs<8xf32>, %f0: token, %f1: token) {
    wait %f0
    %slot = truncmod %k, 3 : i32
    %ahead = add %k, 2 : i32
    %slot_ahead = truncmod %ahead, 3 : i32
    %more = cmp %ahead, %K {predicate = "lt"} : bool
    %x = if %more : token then {
      %o = mul %k, 64 : i32
      %w = cast %o {to = i64} : i64
      %p = add %a, %w : i64
      %d0 = mul %slot_ahead, 1024 : i32
      %d = add %here, %d0 : i32
      %cp = cp_async %d, %p, %As, dst_slot = %slot_ahead, %A {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 512), src_of = (0, 0), src_offsets = (128, 256)} : token
      yield %cp
    } orelse {
      %no = no_token : token
      yield %no
    }
    %j = join %x : token
    %r0 = mul %slot, 1024 : i32
    %r = add %here, %r0 : i32
    %g0 = ldmatrix %r, %As, slot = %slot {dtype = bf16, words = 4, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %m0 = mma_sync %g0, %g0, %acc {atom = "m16n8k16", repeats = (1, 2, 1)} : regs<8xf32>
    %g1 = ldmatrix %r, %As, slot = %slot {dtype = bf16, words = 4, address_of = (0,), offsets = (32,)} : regs<8xbf16>
    %m1 = mma_sync %g1, %g1, %m0 {atom = "m16n8k16", repeats = (1, 2, 1)} : regs<8xf32>
    yield %m1, %f1, %j
  }
  %q = global_address %C : i64
  store_mem %q, %c, %C {space = "global", address_of = (0 * 8,), offsets = (0, 4, 8, 12, 16, 20, 24, 28)}
}

// ----
thread kernel @k(%A: tensor<MxKxbf16>, %C: tensor<16x16xf32>) dims(M = %M: i32, K = %K: i32) attrs {threads = 32} {
  %As = alloc {type_ = shared<3 versions x 16x32xbf16>, layout = shared<16x32xb16; 16:512; 32:16; swizzle 64>, bytes = 1024} : shared<3 versions x 16x32xbf16>
  %tid = special {register = "tid.x"} : i32
  %row = mul %tid, 64 : i32
  %a = global_address %A : i64
  %s = buffer_address %As : i32
  %here = add %s, %row : i32
  %z = pick 0.0 {indices = (0 * 8,)} : regs<8xf32>
  %t0 = no_token : token
  %j0 = join %t0 : token
  %j1 = join %t0 : token
  %0 = cmp 0, %K {predicate = "lt"} : bool
  %1 = if %0 : regs<8xbf16> then {
    wait %j0
    %g0 = ldmatrix %here, %As, slot = 0 {dtype = bf16, words = 4, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    yield %g0
  } orelse {
    %2 = pick 0.0:bf16 {indices = (0 * 8,)} : regs<8xbf16>
    yield %2
  }
  %c, %u0, %u1, %3 = for 0, %K, 1, [%z, %j0, %j1, %1] : regs<8xf32>, token, token, regs<8xbf16> (%k: i32, %acc: regs<8xf32>, %f0: token, %f1: token, %4: regs<8xbf16>) {
    %slot = truncmod %k, 3 : i32
    %ahead = add %k, 2 : i32
    %slot_ahead = truncmod %ahead, 3 : i32
    %more = cmp %ahead, %K {predicate = "lt"} : bool
    %o = mul %k, 64 : i32
    %w = cast %o {to = i64} : i64
    %p = add %a, %w : i64
    %d0 = mul %slot_ahead, 1024 : i32
    %d = add %here, %d0 : i32
    %r0 = mul %slot, 1024 : i32
    %r = add %here, %r0 : i32
    %m0 = mma_sync %4, %4, %acc {atom = "m16n8k16", repeats = (1, 2, 1)} : regs<8xf32>
    %5 = cp_async %d, %p, enable = %more, %As, dst_slot = %slot_ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,)} : token
    %g1 = ldmatrix %r, %As, slot = %slot {dtype = bf16, words = 4, address_of = (0,), offsets = (32,)} : regs<8xbf16>
    %6 = add %k, 1 : i32
    %7 = cmp %6, %K {predicate = "lt"} : bool
    %slot_ahead_1 = truncmod %6, 3 : i32
    %8 = select %7, %slot_ahead_1, %slot : i32
    %r0_ahead = mul %8, 1024 : i32
    %r_ahead = add %here, %r0_ahead : i32
    wait %f1
    %g0_1 = ldmatrix %r_ahead, %As, slot = %slot_ahead_1 {dtype = bf16, words = 4, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %m1 = mma_sync %g1, %g1, %m0 {atom = "m16n8k16", repeats = (1, 2, 1)} : regs<8xf32>
    %9 = cp_async %d, %p, enable = %more, %As, dst_slot = %slot_ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (512,), src_of = (0,), src_offsets = (256,), enable_of = (0,)} : token
    %j = join %5, %9 : token
    yield %m1, %f1, %j, %g0_1
  }
  %q = global_address %C : i64
  store_mem %q, %c, %C {space = "global", address_of = (0 * 8,), offsets = (0, 4, .., 28)}
}
