// A turn of 32 cycles: copies are what it waits for, and the loop stays as it is.
// pass: cdna4_modulo
// target: gfx950
thread kernel @k(%A: tensor<64xKxbf16>, %B: tensor<64xKxbf16>, %C: tensor<64x64xf32>) dims(K = %K: i32) attrs {threads = 64} {
  %As = alloc {type_ = shared<2 versions x 64x64xbf16>, layout = shared<64x64xb16; 64:1024; 64:16; swizzle 128>, bytes = 8192} : shared<2 versions x 64x64xbf16>
  %Bs = alloc {type_ = shared<2 versions x 64x64xbf16>, layout = shared<64x64xb16; 64:1024; 64:16; swizzle 128>, bytes = 8192} : shared<2 versions x 64x64xbf16>
  %a = global_address %A : i64
  %b = global_address %B : i64
  %sa = buffer_address %As : i32
  %sb = buffer_address %Bs : i32
  %o = special {register = "tid.x"} : i32
  %z = pick 0.0 {indices = (0 * 16,)} : regs<16xf32>
  %n = shr %K, 6 : i32
  %some = cmp 0, %n {predicate = "lt"} : bool
  %p0 = cp_async %sa, %o, base = %a, enable = %some, %As, dst_slot = 0, %A {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 1024), src_of = (0, 0), src_offsets = (0, 64), enable_of = (0, 0), wave = true, halves = (0, 1)} : token
  %q0 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 1024), src_of = (0, 0), src_offsets = (0, 64), enable_of = (0, 0), wave = true, halves = (0, 1)} : token
  %j0 = join %p0, %q0 : token
  %c, %left = for 0, %n, 1, [%z, %j0] : regs<16xf32>, token (%k: i32, %acc: regs<16xf32>, %flight: token) {
    wait %flight
    %slot = and %k, 1 : i32
    %next = add %k, 1 : i32
    %slot_ahead = and %next, 1 : i32
    %more = cmp %next, %n {predicate = "lt"} : bool
    %bytes = mul %slot_ahead, 8192 : i32
    %da = add %sa, %bytes : i32
    %db = add %sb, %bytes : i32
    %here = mul %slot, 8192 : i32
    %ra = add %sa, %here : i32
    %rb = add %sb, %here : i32
    %a0 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 16, width = 8, address_of = (0, 0), offsets = (0, 1024)} : regs<16xbf16>
    %b0 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 16, width = 8, address_of = (0, 0), offsets = (0, 1024)} : regs<16xbf16>
    %m0 = mma_sync %a0, %b0, %acc {atom = "mfma16x16x32", repeats = (2, 2, 1)} : regs<16xf32>
    %p = cp_async %da, %o, base = %a, enable = %more, %As, dst_slot = %slot_ahead, %A {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 1024), src_of = (0, 0), src_offsets = (128, 192), enable_of = (0, 0), wave = true, halves = (0, 1)} : token
    %a1 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 16, width = 8, address_of = (0, 0), offsets = (64, 1088)} : regs<16xbf16>
    %b1 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 16, width = 8, address_of = (0, 0), offsets = (64, 1088)} : regs<16xbf16>
    %m1 = mma_sync %a1, %b1, %m0 {atom = "mfma16x16x32", repeats = (2, 2, 1), origin = (0, 0, 1)} : regs<16xf32>
    %q = cp_async %db, %o, base = %b, enable = %more, %Bs, dst_slot = %slot_ahead, %B {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 1024), src_of = (0, 0), src_offsets = (128, 192), enable_of = (0, 0), wave = true, halves = (0, 1)} : token
    %j = join %p, %q : token
    yield %m1, %j
  }
  wait %left
  %w = global_address %C : i64
  store_mem %w, %c, %C {space = "global", address_of = (0 * 16,), offsets = (0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60)}
}


// ----
thread kernel @k(%A: tensor<64xKxbf16>, %B: tensor<64xKxbf16>, %C: tensor<64x64xf32>) dims(K = %K: i32) attrs {threads = 64} {
  %As = alloc {type_ = shared<2 versions x 64x64xbf16>, layout = shared<64x64xb16; 64:1024; 64:16; swizzle 128>, bytes = 8192} : shared<2 versions x 64x64xbf16>
  %Bs = alloc {type_ = shared<2 versions x 64x64xbf16>, layout = shared<64x64xb16; 64:1024; 64:16; swizzle 128>, bytes = 8192} : shared<2 versions x 64x64xbf16>
  %a = global_address %A : i64
  %b = global_address %B : i64
  %sa = buffer_address %As : i32
  %sb = buffer_address %Bs : i32
  %o = special {register = "tid.x"} : i32
  %z = pick 0.0 {indices = (0 * 16,)} : regs<16xf32>
  %n = shr %K, 6 : i32
  %some = cmp 0, %n {predicate = "lt"} : bool
  %p0 = cp_async %sa, %o, base = %a, enable = %some, %As, dst_slot = 0, %A {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 1024), src_of = (0, 0), src_offsets = (0, 64), enable_of = (0, 0), wave = true, halves = (0, 1)} : token
  %q0 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 1024), src_of = (0, 0), src_offsets = (0, 64), enable_of = (0, 0), wave = true, halves = (0, 1)} : token
  %j0 = join %p0, %q0 : token
  %c, %left = for 0, %n, 1, [%z, %j0] : regs<16xf32>, token (%k: i32, %acc: regs<16xf32>, %flight: token) {
    wait %flight
    %slot = and %k, 1 : i32
    %next = add %k, 1 : i32
    %slot_ahead = and %next, 1 : i32
    %more = cmp %next, %n {predicate = "lt"} : bool
    %bytes = mul %slot_ahead, 8192 : i32
    %da = add %sa, %bytes : i32
    %db = add %sb, %bytes : i32
    %here = mul %slot, 8192 : i32
    %ra = add %sa, %here : i32
    %rb = add %sb, %here : i32
    %a0 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 16, width = 8, address_of = (0, 0), offsets = (0, 1024)} : regs<16xbf16>
    %b0 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 16, width = 8, address_of = (0, 0), offsets = (0, 1024)} : regs<16xbf16>
    %m0 = mma_sync %a0, %b0, %acc {atom = "mfma16x16x32", repeats = (2, 2, 1)} : regs<16xf32>
    %p = cp_async %da, %o, base = %a, enable = %more, %As, dst_slot = %slot_ahead, %A {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 1024), src_of = (0, 0), src_offsets = (128, 192), enable_of = (0, 0), wave = true, halves = (0, 1)} : token
    %a1 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 16, width = 8, address_of = (0, 0), offsets = (64, 1088)} : regs<16xbf16>
    %b1 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 16, width = 8, address_of = (0, 0), offsets = (64, 1088)} : regs<16xbf16>
    %m1 = mma_sync %a1, %b1, %m0 {atom = "mfma16x16x32", repeats = (2, 2, 1), origin = (0, 0, 1)} : regs<16xf32>
    %q = cp_async %db, %o, base = %b, enable = %more, %Bs, dst_slot = %slot_ahead, %B {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 1024), src_of = (0, 0), src_offsets = (128, 192), enable_of = (0, 0), wave = true, halves = (0, 1)} : token
    %j = join %p, %q : token
    yield %m1, %j
  }
  wait %left
  %w = global_address %C : i64
  store_mem %w, %c, %C {space = "global", address_of = (0 * 16,), offsets = (0, 4, .., 60)}
}
