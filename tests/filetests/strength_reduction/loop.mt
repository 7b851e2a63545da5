// An address steps by 64 bytes, the slots wrap at 3.
// pass: spread_copies, strength_reduction
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
  %c, %u0, %u1, %0, %1, %2 = for 0, %K, 1, [%z, %j0, %j1, 0, 2, %a] : regs<8xf32>, token, token, i32, i32, i64 (%k: i32, %acc: regs<8xf32>, %f0: token, %f1: token, %slot: i32, %slot_ahead: i32, %p: i64) {
    wait %f0
    %slot_1 = truncmod %k, 3 : i32
    %ahead = add %k, 2 : i32
    %slot_ahead_1 = truncmod %ahead, 3 : i32
    %more = cmp %ahead, %K {predicate = "lt"} : bool
    %o = mul %k, 64 : i32
    %w = cast %o {to = i64} : i64
    %p_1 = add %a, %w : i64
    %d0 = mul %slot_ahead, 1024 : i32
    %d = add %here, %d0 : i32
    %r0 = mul %slot, 1024 : i32
    %r = add %here, %r0 : i32
    %g0 = ldmatrix %r, %As, slot = %slot {dtype = bf16, words = 4, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %m0 = mma_sync %g0, %g0, %acc {atom = "m16n8k16", repeats = (1, 2, 1)} : regs<8xf32>
    %3 = cp_async %d, %p, enable = %more, %As, dst_slot = %slot_ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,)} : token
    %g1 = ldmatrix %r, %As, slot = %slot {dtype = bf16, words = 4, address_of = (0,), offsets = (32,)} : regs<8xbf16>
    %m1 = mma_sync %g1, %g1, %m0 {atom = "m16n8k16", repeats = (1, 2, 1)} : regs<8xf32>
    %4 = cp_async %d, %p, enable = %more, %As, dst_slot = %slot_ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (512,), src_of = (0,), src_offsets = (256,), enable_of = (0,)} : token
    %j = join %3, %4 : token
    %5 = add %slot, 1 : i32
    %6 = cmp %5, 3 {predicate = "ge"} : bool
    %7 = select %6, 0, %5 : i32
    %8 = add %slot_ahead, 1 : i32
    %9 = cmp %8, 3 {predicate = "ge"} : bool
    %10 = select %9, 0, %8 : i32
    %11 = add %p, 64:i64 : i64
    yield %m1, %f1, %j, %7, %10, %11
  }
  %q = global_address %C : i64
  store_mem %q, %c, %C {space = "global", address_of = (0 * 8,), offsets = (0, 4, .., 28)}
}
