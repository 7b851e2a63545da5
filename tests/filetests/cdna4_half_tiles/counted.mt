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
  %0 = cmp 1, %n {predicate = "lt"} : bool
  %1 = add %sa, 8192 : i32
  %2 = add %sb, 8192 : i32
  %3 = cp_async %sa, %o, base = %a, enable = %some, %As, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,), enable_of = (0,), wave = true, halves = (0,)} : token
  %4 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,), enable_of = (0,), wave = true, halves = (0,)} : token
  %5 = join %3, %4 : token
  %6 = cp_async %sa, %o, base = %a, enable = %some, %As, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (64,), enable_of = (0,), wave = true, halves = (1,)} : token
  %7 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (64,), enable_of = (0,), wave = true, halves = (1,)} : token
  %8 = join %6, %7 : token
  %9 = cp_async %1, %o, base = %a, enable = %0, %As, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
  %10 = cp_async %2, %o, base = %b, enable = %0, %Bs, dst_slot = 1, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
  %11 = join %9, %10 : token
  %12 = cp_async %1, %o, base = %a, enable = %0, %As, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
  %13 = cp_async %2, %o, base = %b, enable = %0, %Bs, dst_slot = 1, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
  %14 = join %12, %13 : token
  wait %5 {pending = 6}
  barrier
  %15 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %16 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
  %17 = load_mem %sa, %As, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %18 = load_mem %sa, %As, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
  %c, %flight, %flight_1, %flight_2, %fragment, %fragment_1, %fragment_2, %fragment_3 = for 0, %n, 1, [%z, %11, %8, %14, %15, %16, %17, %18] : regs<16xf32>, token, token, token, regs<8xbf16>, regs<8xbf16>, regs<8xbf16>, regs<8xbf16> (%k: i32, %acc: regs<16xf32>, %flight_3: token, %flight_4: token, %flight_5: token, %fragment_4: regs<8xbf16>, %fragment_5: regs<8xbf16>, %fragment_6: regs<8xbf16>, %fragment_7: regs<8xbf16>) {
    %19 = add %k, 1 : i32
    sched_barrier
    wait %flight_4 {pending = 4}
    %20 = add %19, 1 : i32
    %21 = and %20, 1 : i32
    %22 = cmp %20, %n {predicate = "lt"} : bool
    %23 = mul %21, 8192 : i32
    %24 = add %sa, %23 : i32
    barrier
    %25 = cp_async %24, %o, base = %a, enable = %22, %As, dst_slot = %21, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
    %26 = add %sb, %23 : i32
    %27 = cp_async %26, %o, base = %b, enable = %22, %Bs, dst_slot = %21, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
    %28 = join %25, %27 : token
    %slot = and %k, 1 : i32
    %here = mul %slot, 8192 : i32
    %ra = add %sa, %here : i32
    %29 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
    set_priority {level = 1}
    %30 = pick %acc {indices = (0, 1, 2, 3)} : regs<4xf32>
    sched_barrier
    %31 = mma_sync %fragment_6, %fragment_4, %30 {atom = "mfma16x16x32", repeats = (1, 1, 1)} : regs<4xf32>
    sched_barrier
    %32 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1088,)} : regs<8xbf16>
    %rb = add %sb, %here : i32
    %33 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
    sched_barrier
    %34 = mma_sync %fragment_7, %fragment_5, %31 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 0, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    lds_wait {pending = 0}
    %35 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1088,)} : regs<8xbf16>
    set_priority {level = 1}
    %36 = pick %acc {indices = (8, 9, 10, 11)} : regs<4xf32>
    sched_barrier
    %37 = mma_sync %29, %fragment_4, %36 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 0, 0)} : regs<4xf32>
    sched_barrier
    sched_barrier
    %38 = mma_sync %32, %fragment_5, %37 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 0, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    wait %flight_3 {pending = 4}
    %39 = and %19, 1 : i32
    %40 = mul %39, 8192 : i32
    %41 = add %sb, %40 : i32
    barrier
    %42 = load_mem %41, %Bs, slot = %39 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %43 = load_mem %41, %Bs, slot = %39 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
    set_priority {level = 1}
    %44 = pick %acc {indices = (12, 13, 14, 15)} : regs<4xf32>
    sched_barrier
    %45 = mma_sync %29, %33, %44 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 1, 0)} : regs<4xf32>
    sched_barrier
    %46 = cp_async %24, %o, base = %a, enable = %22, %As, dst_slot = %21, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
    sched_barrier
    %47 = mma_sync %32, %35, %45 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 1, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    %48 = cp_async %26, %o, base = %b, enable = %22, %Bs, dst_slot = %21, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
    %49 = join %46, %48 : token
    set_priority {level = 1}
    %50 = pick %acc {indices = (4, 5, 6, 7)} : regs<4xf32>
    sched_barrier
    %51 = mma_sync %fragment_6, %33, %50 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 1, 0)} : regs<4xf32>
    sched_barrier
    %52 = add %sa, %40 : i32
    %53 = load_mem %52, %As, slot = %39 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    sched_barrier
    %54 = mma_sync %fragment_7, %35, %51 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 1, 1)} : regs<4xf32>
    sched_barrier
    %55 = load_mem %52, %As, slot = %39 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
    set_priority {level = 0}
    sched_barrier
    %next = add %k, 1 : i32
    %slot_ahead = and %next, 1 : i32
    %more = cmp %next, %n {predicate = "lt"} : bool
    %bytes = mul %slot_ahead, 8192 : i32
    %da = add %sa, %bytes : i32
    %db = add %sb, %bytes : i32
    %m1 = concat %34, %54, %38, %47 : regs<16xf32>
    yield %m1, %28, %flight_5, %49, %42, %43, %53, %55
  }
  %56 = join %flight, %flight_1, %flight_2 : token
  wait %56 {pending = 0}
  %w = global_address %C : i64
  store_mem %w, %c, %C {space = "global", address_of = (0 * 16,), offsets = (0, 4, .., 60)}
}
