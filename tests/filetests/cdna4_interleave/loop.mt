// Four stages, by kp and half of j; the first stage's reads and half of the copies belong to the iteration before.
// pass: cdna4_interleave
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
  %0 = cmp 1, %n {predicate = "lt"} : bool
  %1 = add %sa, 8192 : i32
  %2 = cp_async %sa, %o, base = %a, enable = %some, %As, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,), enable_of = (0,), wave = true, halves = (0,)} : token
  %3 = cp_async %sa, %o, base = %a, enable = %some, %As, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (64,), enable_of = (0,), wave = true, halves = (1,)} : token
  %4 = join %2, %3 : token
  %5 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,), enable_of = (0,), wave = true, halves = (0,)} : token
  %6 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (64,), enable_of = (0,), wave = true, halves = (1,)} : token
  %7 = join %5, %6 : token
  %8 = cp_async %1, %o, base = %a, enable = %0, %As, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
  %9 = cp_async %1, %o, base = %a, enable = %0, %As, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
  %10 = join %8, %9 : token
  %11 = join %4, %7 : token
  wait %11
  %12 = load_mem %sa, %As, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %13 = load_mem %sa, %As, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
  %14 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %c, %flight, %fragment, %fragment_1, %fragment_2 = for 0, %n, 1, [%z, %10, %12, %13, %14] : regs<16xf32>, token, regs<8xbf16>, regs<8xbf16>, regs<8xbf16> (%k: i32, %acc: regs<16xf32>, %flight_1: token, %fragment_3: regs<8xbf16>, %fragment_4: regs<8xbf16>, %fragment_5: regs<8xbf16>) {
    %15 = add %k, 1 : i32
    sched_barrier
    lds_wait {pending = 0}
    %slot = and %k, 1 : i32
    %here = mul %slot, 8192 : i32
    %rb = add %sb, %here : i32
    %16 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
    %next = add %k, 1 : i32
    %slot_ahead = and %next, 1 : i32
    %more = cmp %next, %n {predicate = "lt"} : bool
    %bytes = mul %slot_ahead, 8192 : i32
    %db = add %sb, %bytes : i32
    %17 = cp_async %db, %o, base = %b, enable = %more, %Bs, dst_slot = %slot_ahead, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
    set_priority {level = 1}
    %18 = pick %acc {indices = (0, 1, 2, 3)} : regs<4xf32>
    sched_barrier
    %19 = mma_sync %fragment_3, %fragment_5, %18 {atom = "mfma16x16x32", repeats = (1, 1, 1)} : regs<4xf32>
    sched_barrier
    %20 = cp_async %db, %o, base = %b, enable = %more, %Bs, dst_slot = %slot_ahead, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
    %21 = join %17, %20 : token
    %22 = pick %acc {indices = (8, 9, 10, 11)} : regs<4xf32>
    sched_barrier
    %23 = mma_sync %fragment_4, %fragment_5, %22 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 0, 0)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    lds_wait {pending = 0}
    %ra = add %sa, %here : i32
    %24 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
    %25 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1088,)} : regs<8xbf16>
    set_priority {level = 1}
    %26 = pick %acc {indices = (4, 5, 6, 7)} : regs<4xf32>
    sched_barrier
    %27 = mma_sync %fragment_3, %16, %26 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 1, 0)} : regs<4xf32>
    sched_barrier
    %28 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
    %29 = pick %acc {indices = (12, 13, 14, 15)} : regs<4xf32>
    sched_barrier
    %30 = mma_sync %fragment_4, %16, %29 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 1, 0)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    lds_wait {pending = 0}
    %31 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1088,)} : regs<8xbf16>
    set_priority {level = 1}
    sched_barrier
    %32 = mma_sync %24, %28, %19 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 0, 1)} : regs<4xf32>
    sched_barrier
    sched_barrier
    %33 = mma_sync %25, %28, %23 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 0, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    %34 = join %flight_1, %21 : token
    wait %34
    %35 = and %15, 1 : i32
    %36 = mul %35, 8192 : i32
    %37 = add %sa, %36 : i32
    %38 = load_mem %37, %As, slot = %35 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %39 = load_mem %37, %As, slot = %35 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
    %40 = add %sb, %36 : i32
    %41 = load_mem %40, %Bs, slot = %35 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    set_priority {level = 1}
    sched_barrier
    %42 = mma_sync %24, %31, %27 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 1, 1)} : regs<4xf32>
    sched_barrier
    %43 = add %15, 1 : i32
    %44 = and %43, 1 : i32
    %45 = cmp %43, %n {predicate = "lt"} : bool
    %46 = mul %44, 8192 : i32
    %47 = add %sa, %46 : i32
    %48 = cp_async %47, %o, base = %a, enable = %45, %As, dst_slot = %44, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
    %49 = cp_async %47, %o, base = %a, enable = %45, %As, dst_slot = %44, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
    %50 = join %48, %49 : token
    sched_barrier
    %51 = mma_sync %25, %31, %30 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 1, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    %da = add %sa, %bytes : i32
    %m1 = concat %32, %42, %33, %51 : regs<16xf32>
    yield %m1, %50, %38, %39, %41
  }
  wait %flight
  %w = global_address %C : i64
  store_mem %w, %c, %C {space = "global", address_of = (0 * 16,), offsets = (0, 4, .., 60)}
}
