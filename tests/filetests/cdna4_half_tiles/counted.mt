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
  %6 = add %sa, 8192 : i32
  %7 = cmp 1, %n {predicate = "lt"} : bool
  %8 = cp_async %6, %o, base = %a, enable = %7, %As, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
  %9 = add %sb, 8192 : i32
  %10 = cp_async %9, %o, base = %b, enable = %7, %Bs, dst_slot = 1, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
  %11 = join %8, %10 : token
  %12 = cp_async %6, %o, base = %a, enable = %7, %As, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
  %13 = cp_async %9, %o, base = %b, enable = %7, %Bs, dst_slot = 1, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
  %14 = join %12, %13 : token
  wait %2 {pending = 6}
  barrier
  %15 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %16 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
  %17 = load_mem %sa, %As, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %18 = load_mem %sa, %As, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
  %c, %flight, %flight_1, %19, %20, %21, %22, %23, %24 = for 0, %n, 1, [%z, %2, %5, %11, %14, %15, %16, %17, %18] : regs<16xf32>, token, token, token, token, regs<8xbf16>, regs<8xbf16>, regs<8xbf16>, regs<8xbf16> (%k: i32, %acc: regs<16xf32>, %flight_2: token, %flight_3: token, %25: token, %26: token, %27: regs<8xbf16>, %28: regs<8xbf16>, %29: regs<8xbf16>, %30: regs<8xbf16>) {
    %31 = add %k, 1 : i32
    sched_barrier
    wait %flight_3 {pending = 4}
    %32 = add %31, 1 : i32
    %33 = and %32, 1 : i32
    %34 = mul %33, 8192 : i32
    %35 = add %sa, %34 : i32
    %36 = cmp %32, %n {predicate = "lt"} : bool
    barrier
    %37 = cp_async %35, %o, base = %a, enable = %36, %As, dst_slot = %33, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
    %38 = add %sb, %34 : i32
    %39 = cp_async %38, %o, base = %b, enable = %36, %Bs, dst_slot = %33, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
    %40 = join %37, %39 : token
    %slot = and %k, 1 : i32
    %here = mul %slot, 8192 : i32
    %ra = add %sa, %here : i32
    %41 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
    set_priority {level = 1}
    %42 = pick %acc {indices = (0, 1, 2, 3)} : regs<4xf32>
    sched_barrier
    %43 = mma_sync %29, %27, %42 {atom = "mfma16x16x32", repeats = (1, 1, 1)} : regs<4xf32>
    sched_barrier
    %44 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1088,)} : regs<8xbf16>
    %rb = add %sb, %here : i32
    %45 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
    sched_barrier
    %46 = mma_sync %30, %28, %43 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 0, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    lds_wait {pending = 0}
    %47 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1088,)} : regs<8xbf16>
    set_priority {level = 1}
    %48 = pick %acc {indices = (8, 9, 10, 11)} : regs<4xf32>
    sched_barrier
    %49 = mma_sync %41, %27, %48 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 0, 0)} : regs<4xf32>
    sched_barrier
    sched_barrier
    %50 = mma_sync %44, %28, %49 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 0, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    wait %25 {pending = 4}
    %51 = and %31, 1 : i32
    %52 = mul %51, 8192 : i32
    %53 = add %sb, %52 : i32
    barrier
    %54 = load_mem %53, %Bs, slot = %51 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %55 = load_mem %53, %Bs, slot = %51 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
    set_priority {level = 1}
    %56 = pick %acc {indices = (12, 13, 14, 15)} : regs<4xf32>
    sched_barrier
    %57 = mma_sync %41, %45, %56 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 1, 0)} : regs<4xf32>
    sched_barrier
    %58 = cp_async %35, %o, base = %a, enable = %36, %As, dst_slot = %33, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
    sched_barrier
    %59 = mma_sync %44, %47, %57 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (1, 1, 1)} : regs<4xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    %60 = cp_async %38, %o, base = %b, enable = %36, %Bs, dst_slot = %33, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
    %61 = join %58, %60 : token
    set_priority {level = 1}
    %62 = pick %acc {indices = (4, 5, 6, 7)} : regs<4xf32>
    sched_barrier
    %63 = mma_sync %29, %45, %62 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 1, 0)} : regs<4xf32>
    sched_barrier
    %64 = add %sa, %52 : i32
    %65 = load_mem %64, %As, slot = %51 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    sched_barrier
    %66 = mma_sync %30, %47, %63 {atom = "mfma16x16x32", repeats = (1, 1, 1), origin = (0, 1, 1)} : regs<4xf32>
    sched_barrier
    %67 = load_mem %64, %As, slot = %51 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
    set_priority {level = 0}
    sched_barrier
    %m1 = concat %46, %66, %50, %59 : regs<16xf32>
    %next = add %k, 1 : i32
    %slot_ahead = and %next, 1 : i32
    %more = cmp %next, %n {predicate = "lt"} : bool
    %bytes = mul %slot_ahead, 8192 : i32
    %da = add %sa, %bytes : i32
    %db = add %sb, %bytes : i32
    yield %m1, %25, %26, %40, %61, %54, %55, %65, %67
  }
  %68 = join %flight, %flight_1, %19, %20 : token
  wait %68 {pending = 0}
  %w = global_address %C : i64
  store_mem %w, %c, %C {space = "global", address_of = (0 * 16,), offsets = (0, 4, .., 60)}
}
