// With the barriers and the counts: one barrier an iteration, vmcnt(0); two, with copies under way.
// pass: cdna4_half_tiles, thread_barriers, resolve_wait_counts
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
  %1 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,), enable_of = (0,), wave = true, halves = (0,)} : token
  %2 = join %0, %1 : token
  %3 = cp_async %sa, %o, base = %a, enable = %some, %As, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (64,), enable_of = (0,), wave = true, halves = (1,)} : token
  %4 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (64,), enable_of = (0,), wave = true, halves = (1,)} : token
  %5 = join %3, %4 : token
  %da_ahead = add %sa, 8192 : i32
  %more_ahead = cmp 1, %n {predicate = "lt"} : bool
  %6 = cp_async %da_ahead, %o, base = %a, enable = %more_ahead, %As, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
  %db_ahead = add %sb, 8192 : i32
  %7 = cp_async %db_ahead, %o, base = %b, enable = %more_ahead, %Bs, dst_slot = 1, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
  %8 = join %6, %7 : token
  %9 = cp_async %da_ahead, %o, base = %a, enable = %more_ahead, %As, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
  %10 = cp_async %db_ahead, %o, base = %b, enable = %more_ahead, %Bs, dst_slot = 1, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
  %11 = join %9, %10 : token
  wait %2 {pending = 6}
  barrier
  %12 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %13 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
  %14 = load_mem %sa, %As, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %15 = load_mem %sa, %As, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
  %c, %flight, %flight_1, %16, %17, %18, %19, %20, %21 = for 0, %n, 1, [%z, %2, %5, %8, %14, %12, %15, %13, %11] : regs<16xf32>, token, token, token, regs<8xbf16>, regs<8xbf16>, regs<8xbf16>, regs<8xbf16>, token (%k: i32, %acc: regs<16xf32>, %flight_2: token, %flight_3: token, %flight_4: token, %22: regs<8xbf16>, %23: regs<8xbf16>, %24: regs<8xbf16>, %25: regs<8xbf16>, %flight_5: token) {
    %26 = add %k, 1 : i32
    sched_barrier
    wait %flight_3 {pending = 4}
    %next_ahead = add %26, 1 : i32
    %slot_ahead_ahead = and %next_ahead, 1 : i32
    %bytes_ahead = mul %slot_ahead_ahead, 8192 : i32
    %da_ahead_1 = add %sa, %bytes_ahead : i32
    %more_ahead_1 = cmp %next_ahead, %n {predicate = "lt"} : bool
    barrier
    %27 = cp_async %da_ahead_1, %o, base = %a, enable = %more_ahead_1, %As, dst_slot = %slot_ahead_ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
    %db_ahead_1 = add %sb, %bytes_ahead : i32
    %28 = cp_async %db_ahead_1, %o, base = %b, enable = %more_ahead_1, %Bs, dst_slot = %slot_ahead_ahead, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
    %29 = join %27, %28 : token
    %slot = and %k, 1 : i32
    %here = mul %slot, 8192 : i32
    %ra = add %sa, %here : i32
    %30 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
    set_priority {level = 1}
    %31 = pick %acc {indices = (0, 1, 2, 3)} : regs<4xf32>
    sched_barrier
    %32 = mma_sync %22, %23, %31 {atom = "mfma16x16x32", repeats = (1, 1, 1)} : regs<4xf32>
    sched_barrier
    %33 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1088,)} : regs<8xbf16>
    %rb = add %sb, %here : i32
    %34 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
    sched_barrier
    %35 = mma_sync %24, %25, %32 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 0, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    lds_wait {pending = 0}
    %36 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1088,)} : regs<8xbf16>
    set_priority {level = 1}
    %37 = pick %acc {indices = (8, 9, 10, 11)} : regs<4xf32>
    sched_barrier
    %38 = mma_sync %30, %23, %37 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 0, 0)} : regs<4xf32>
    sched_barrier
    sched_barrier
    %39 = mma_sync %33, %25, %38 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 0, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    wait %flight_4 {pending = 4}
    %slot_ahead = and %26, 1 : i32
    %here_ahead = mul %slot_ahead, 8192 : i32
    %rb_ahead = add %sb, %here_ahead : i32
    barrier
    %40 = load_mem %rb_ahead, %Bs, slot = %slot_ahead {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %41 = load_mem %rb_ahead, %Bs, slot = %slot_ahead {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
    set_priority {level = 1}
    %42 = pick %acc {indices = (12, 13, 14, 15)} : regs<4xf32>
    sched_barrier
    %43 = mma_sync %30, %34, %42 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 1, 0)} : regs<4xf32>
    sched_barrier
    %44 = cp_async %da_ahead_1, %o, base = %a, enable = %more_ahead_1, %As, dst_slot = %slot_ahead_ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
    sched_barrier
    %45 = mma_sync %33, %36, %43 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 1, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    %46 = cp_async %db_ahead_1, %o, base = %b, enable = %more_ahead_1, %Bs, dst_slot = %slot_ahead_ahead, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
    %47 = join %44, %46 : token
    set_priority {level = 1}
    %48 = pick %acc {indices = (4, 5, 6, 7)} : regs<4xf32>
    sched_barrier
    %49 = mma_sync %22, %34, %48 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 1, 0)} : regs<4xf32>
    sched_barrier
    %ra_ahead = add %sa, %here_ahead : i32
    %50 = load_mem %ra_ahead, %As, slot = %slot_ahead {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    sched_barrier
    %51 = mma_sync %24, %36, %49 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 1, 1)} : regs<4xf32>
    sched_barrier
    %52 = load_mem %ra_ahead, %As, slot = %slot_ahead {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
    set_priority {level = 0}
    sched_barrier
    %m1 = concat %35, %51, %39, %45 : regs<16xf32>
    yield %m1, %flight_4, %flight_5, %29, %50, %40, %52, %41, %47
  }
  %53 = join %flight, %flight_1, %16, %21 : token
  wait %53 {pending = 0}
  %w = global_address %C : i64
  store_mem %w, %c, %C {space = "global", address_of = (0 * 16,), offsets = (0, 4, .., 60)}
}
