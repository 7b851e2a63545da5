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
  %0 = cp_async %sa, %o, base = %a, enable = %some, %As, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,), enable_of = (0,), wave = true, halves = (0,)} : token
  %1 = cp_async %sa, %o, base = %a, enable = %some, %As, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (64,), enable_of = (0,), wave = true, halves = (1,)} : token
  %2 = join %0, %1 : token
  %3 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,), enable_of = (0,), wave = true, halves = (0,)} : token
  %4 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (64,), enable_of = (0,), wave = true, halves = (1,)} : token
  %5 = join %3, %4 : token
  %6 = add %sa, 8192 : i32
  %7 = cmp 1, %n {predicate = "lt"} : bool
  %8 = cp_async %6, %o, base = %a, enable = %7, %As, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
  %9 = cp_async %6, %o, base = %a, enable = %7, %As, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
  %10 = join %8, %9 : token
  %11 = join %2, %5 : token
  wait %11
  %12 = load_mem %sa, %As, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %13 = load_mem %sa, %As, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
  %14 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %c, %flight, %flight_1, %15, %16, %17, %18 = for 0, %n, 1, [%z, %2, %5, %10, %12, %13, %14] : regs<16xf32>, token, token, token, regs<8xbf16>, regs<8xbf16>, regs<8xbf16> (%k: i32, %acc: regs<16xf32>, %flight_2: token, %flight_3: token, %19: token, %20: regs<8xbf16>, %21: regs<8xbf16>, %22: regs<8xbf16>) {
    %23 = add %k, 1 : i32
    sched_barrier
    lds_wait {pending = 0}
    %slot = and %k, 1 : i32
    %here = mul %slot, 8192 : i32
    %rb = add %sb, %here : i32
    %24 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
    %next = add %k, 1 : i32
    %slot_ahead = and %next, 1 : i32
    %bytes = mul %slot_ahead, 8192 : i32
    %db = add %sb, %bytes : i32
    %more = cmp %next, %n {predicate = "lt"} : bool
    %25 = cp_async %db, %o, base = %b, enable = %more, %Bs, dst_slot = %slot_ahead, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
    set_priority {level = 1}
    %26 = pick %acc {indices = (0, 1, 2, 3)} : regs<4xf32>
    sched_barrier
    %27 = mma_sync %20, %22, %26 {atom = "mfma16x16x32", repeats = (1, 1, 1)} : regs<4xf32>
    sched_barrier
    %28 = cp_async %db, %o, base = %b, enable = %more, %Bs, dst_slot = %slot_ahead, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
    %29 = join %25, %28 : token
    %30 = pick %acc {indices = (8, 9, 10, 11)} : regs<4xf32>
    sched_barrier
    %31 = mma_sync %21, %22, %30 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 0, 0)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    lds_wait {pending = 0}
    %ra = add %sa, %here : i32
    %32 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
    %33 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1088,)} : regs<8xbf16>
    set_priority {level = 1}
    %34 = pick %acc {indices = (4, 5, 6, 7)} : regs<4xf32>
    sched_barrier
    %35 = mma_sync %20, %24, %34 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 1, 0)} : regs<4xf32>
    sched_barrier
    %36 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
    %37 = pick %acc {indices = (12, 13, 14, 15)} : regs<4xf32>
    sched_barrier
    %38 = mma_sync %21, %24, %37 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 1, 0)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    lds_wait {pending = 0}
    %39 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1088,)} : regs<8xbf16>
    set_priority {level = 1}
    sched_barrier
    %40 = mma_sync %32, %36, %27 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 0, 1)} : regs<4xf32>
    sched_barrier
    sched_barrier
    %41 = mma_sync %33, %36, %31 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 0, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    %42 = join %19, %29 : token
    wait %42
    %43 = and %23, 1 : i32
    %44 = mul %43, 8192 : i32
    %45 = add %sa, %44 : i32
    %46 = load_mem %45, %As, slot = %43 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %47 = load_mem %45, %As, slot = %43 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
    %48 = add %sb, %44 : i32
    %49 = load_mem %48, %Bs, slot = %43 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    set_priority {level = 1}
    sched_barrier
    %50 = mma_sync %32, %39, %35 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 1, 1)} : regs<4xf32>
    sched_barrier
    %51 = add %23, 1 : i32
    %52 = and %51, 1 : i32
    %53 = mul %52, 8192 : i32
    %54 = add %sa, %53 : i32
    %55 = cmp %51, %n {predicate = "lt"} : bool
    %56 = cp_async %54, %o, base = %a, enable = %55, %As, dst_slot = %52, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
    %57 = cp_async %54, %o, base = %a, enable = %55, %As, dst_slot = %52, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
    %58 = join %56, %57 : token
    sched_barrier
    %59 = mma_sync %33, %39, %38 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 1, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    %m1 = concat %40, %50, %41, %59 : regs<16xf32>
    %da = add %sa, %bytes : i32
    yield %m1, %19, %29, %58, %46, %47, %49
  }
  %60 = join %flight, %flight_1, %15 : token
  wait %60
  %w = global_address %C : i64
  store_mem %w, %c, %C {space = "global", address_of = (0 * 16,), offsets = (0, 4, .., 60)}
}
