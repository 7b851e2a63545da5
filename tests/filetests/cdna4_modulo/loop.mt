// Reads so long in front of their products as the search says, the first ones in the iteration before, the wait behind
// this tile's reads, and copies behind that. Eight waves share the matrix units: a turn of 32 products takes 1024 cycles.
// pass: cdna4_modulo
// target: gfx950
thread kernel @k(%A: tensor<64xKxbf16>, %B: tensor<64xKxbf16>, %C: tensor<64x64xf32>) dims(K = %K: i32) attrs {threads = 512} {
  %As = alloc {type_ = shared<2 versions x 64x64xbf16>, layout = shared<64x64xb16; 64:1024; 64:16; swizzle 128>, bytes = 8192} : shared<2 versions x 64x64xbf16>
  %Bs = alloc {type_ = shared<2 versions x 64x64xbf16>, layout = shared<64x64xb16; 64:1024; 64:16; swizzle 128>, bytes = 8192} : shared<2 versions x 64x64xbf16>
  %a = global_address %A : i64
  %b = global_address %B : i64
  %sa = buffer_address %As : i32
  %sb = buffer_address %Bs : i32
  %o = special {register = "tid.x"} : i32
  %z = pick 0.0 {indices = (0 * 64)} : regs<64xf32>
  %n = shr %K, 6 : i32
  %some = cmp 0, %n {predicate = "lt"} : bool
  %p0 = cp_async %sa, %o, base = %a, enable = %some, %As, dst_slot = 0, %A {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 1024), src_of = (0, 0), src_offsets = (0, 64), enable_of = (0, 0), wave = true, halves = (0, 1)} : token
  %q0 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 1024), src_of = (0, 0), src_offsets = (0, 64), enable_of = (0, 0), wave = true, halves = (0, 1)} : token
  %j0 = join %p0, %q0 : token
  %c, %left = for 0, %n, 1, [%z, %j0] : regs<64xf32>, token (%k: i32, %acc: regs<64xf32>, %flight: token) {
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
    %a0 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 32, width = 8, address_of = (0 * 4), offsets = (0, 1024, 2048, 3072)} : regs<32xbf16>
    %b0 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 32, width = 8, address_of = (0 * 4), offsets = (0, 1024, 2048, 3072)} : regs<32xbf16>
    %m0 = mma_sync %a0, %b0, %acc {atom = "mfma16x16x32", repeats = (4, 4, 1)} : regs<64xf32>
    %p = cp_async %da, %o, base = %a, enable = %more, %As, dst_slot = %slot_ahead, %A {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 1024), src_of = (0, 0), src_offsets = (128, 192), enable_of = (0, 0), wave = true, halves = (0, 1)} : token
    %a1 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 32, width = 8, address_of = (0 * 4), offsets = (64, 1088, 2112, 3136)} : regs<32xbf16>
    %b1 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 32, width = 8, address_of = (0 * 4), offsets = (64, 1088, 2112, 3136)} : regs<32xbf16>
    %m1 = mma_sync %a1, %b1, %m0 {atom = "mfma16x16x32", repeats = (4, 4, 1), origin = (0, 0, 1)} : regs<64xf32>
    %q = cp_async %db, %o, base = %b, enable = %more, %Bs, dst_slot = %slot_ahead, %B {bytes = 16, dst_of = (0, 0), dst_offsets = (0, 1024), src_of = (0, 0), src_offsets = (128, 192), enable_of = (0, 0), wave = true, halves = (0, 1)} : token
    %j = join %p, %q : token
    yield %m1, %j
  }
  wait %left
  %w = global_address %C : i64
  store_mem %w, %c, %C {space = "global", address_of = (0 * 64), offsets = (0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 68, 72, 76, 80, 84, 88, 92, 96, 100, 104, 108, 112, 116, 120, 124, 128, 132, 136, 140, 144, 148, 152, 156, 160, 164, 168, 172, 176, 180, 184, 188, 192, 196, 200, 204, 208, 212, 216, 220, 224, 228, 232, 236, 240, 244, 248, 252)}
}


// ----
thread kernel @k(%A: tensor<64xKxbf16>, %B: tensor<64xKxbf16>, %C: tensor<64x64xf32>) dims(K = %K: i32) attrs {threads = 512} {
  %As = alloc {type_ = shared<2 versions x 64x64xbf16>, layout = shared<64x64xb16; 64:1024; 64:16; swizzle 128>, bytes = 8192} : shared<2 versions x 64x64xbf16>
  %Bs = alloc {type_ = shared<2 versions x 64x64xbf16>, layout = shared<64x64xb16; 64:1024; 64:16; swizzle 128>, bytes = 8192} : shared<2 versions x 64x64xbf16>
  %a = global_address %A : i64
  %b = global_address %B : i64
  %sa = buffer_address %As : i32
  %sb = buffer_address %Bs : i32
  %o = special {register = "tid.x"} : i32
  %z = pick 0.0 {indices = (0 * 64,)} : regs<64xf32>
  %n = shr %K, 6 : i32
  %some = cmp 0, %n {predicate = "lt"} : bool
  %0 = cp_async %sa, %o, base = %a, enable = %some, %As, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,), enable_of = (0,), wave = true, halves = (0,)} : token
  %1 = cp_async %sa, %o, base = %a, enable = %some, %As, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (64,), enable_of = (0,), wave = true, halves = (1,)} : token
  %2 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,), enable_of = (0,), wave = true, halves = (0,)} : token
  %3 = cp_async %sb, %o, base = %b, enable = %some, %Bs, dst_slot = 0, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (64,), enable_of = (0,), wave = true, halves = (1,)} : token
  %4 = join %0, %1, %2, %3 : token
  %db_ahead = add %sb, 8192 : i32
  %more_ahead = cmp 1, %n {predicate = "lt"} : bool
  %5 = cp_async %db_ahead, %o, base = %b, enable = %more_ahead, %Bs, dst_slot = 1, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
  %6 = cp_async %db_ahead, %o, base = %b, enable = %more_ahead, %Bs, dst_slot = 1, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
  %da_ahead = add %sa, 8192 : i32
  %7 = cp_async %da_ahead, %o, base = %a, enable = %more_ahead, %As, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
  %8 = cp_async %da_ahead, %o, base = %a, enable = %more_ahead, %As, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
  %9 = join %5, %6, %7, %8 : token
  wait %4
  %10 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (3072,)} : regs<8xbf16>
  %11 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
  %12 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %13 = load_mem %sa, %As, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
  %14 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (2048,)} : regs<8xbf16>
  %15 = load_mem %sa, %As, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
  %16 = load_mem %sb, %Bs, slot = 0 {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (3136,)} : regs<8xbf16>
  %c, %flight, %17, %18, %19, %20, %21, %22, %23, %24 = for 0, %n, 1, [%z, %4, %13, %12, %11, %14, %10, %15, %16, %9] : regs<64xf32>, token, regs<8xbf16>, regs<8xbf16>, regs<8xbf16>, regs<8xbf16>, regs<8xbf16>, regs<8xbf16>, regs<8xbf16>, token (%k: i32, %acc: regs<64xf32>, %flight_1: token, %25: regs<8xbf16>, %26: regs<8xbf16>, %27: regs<8xbf16>, %28: regs<8xbf16>, %29: regs<8xbf16>, %30: regs<8xbf16>, %31: regs<8xbf16>, %flight_2: token) {
    %32 = add %k, 1 : i32
    set_priority {level = 1}
    %slot = and %k, 1 : i32
    %here = mul %slot, 8192 : i32
    %ra = add %sa, %here : i32
    %33 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (2048,)} : regs<8xbf16>
    %34 = concat %26, %27 : regs<16xbf16>
    %35 = pick %acc {indices = (0, 1, .., 7)} : regs<8xf32>
    sched_barrier
    %36 = mma_sync %25, %34, %35 {atom = "mfma16x16x32", repeats = (1, 2, 1)} : regs<8xf32>
    sched_barrier
    %rb = add %sb, %here : i32
    %37 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1088,)} : regs<8xbf16>
    %38 = concat %28, %29 : regs<16xbf16>
    %39 = pick %acc {indices = (8, 9, .., 15)} : regs<8xf32>
    sched_barrier
    %40 = mma_sync %25, %38, %39 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (0, 2, 0)} : regs<8xf32>
    sched_barrier
    %41 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (3072,)} : regs<8xbf16>
    %42 = concat %26, %27 : regs<16xbf16>
    %43 = pick %acc {indices = (16, 17, .., 23)} : regs<8xf32>
    sched_barrier
    %44 = mma_sync %30, %42, %43 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (1, 0, 0)} : regs<8xf32>
    sched_barrier
    %45 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
    %46 = concat %28, %29 : regs<16xbf16>
    %47 = pick %acc {indices = (24, 25, .., 31)} : regs<8xf32>
    sched_barrier
    %48 = mma_sync %30, %46, %47 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (1, 2, 0)} : regs<8xf32>
    sched_barrier
    %49 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (64,)} : regs<8xbf16>
    %50 = concat %26, %27 : regs<16xbf16>
    %51 = pick %acc {indices = (32, 33, .., 39)} : regs<8xf32>
    sched_barrier
    %52 = mma_sync %33, %50, %51 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (2, 0, 0)} : regs<8xf32>
    sched_barrier
    %53 = load_mem %rb, %Bs, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (2112,)} : regs<8xbf16>
    %54 = concat %28, %29 : regs<16xbf16>
    %55 = pick %acc {indices = (40, 41, .., 47)} : regs<8xf32>
    sched_barrier
    %56 = mma_sync %33, %54, %55 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (2, 2, 0)} : regs<8xf32>
    sched_barrier
    %57 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1088,)} : regs<8xbf16>
    %58 = concat %26, %27 : regs<16xbf16>
    %59 = pick %acc {indices = (48, 49, .., 55)} : regs<8xf32>
    sched_barrier
    %60 = mma_sync %41, %58, %59 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (3, 0, 0)} : regs<8xf32>
    sched_barrier
    %61 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (3136,)} : regs<8xbf16>
    %62 = concat %28, %29 : regs<16xbf16>
    %63 = pick %acc {indices = (56, 57, .., 63)} : regs<8xf32>
    sched_barrier
    %64 = mma_sync %41, %62, %63 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (3, 2, 0)} : regs<8xf32>
    sched_barrier
    %65 = load_mem %ra, %As, slot = %slot {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (2112,)} : regs<8xbf16>
    %66 = concat %45, %37 : regs<16xbf16>
    sched_barrier
    %67 = mma_sync %49, %66, %36 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (0, 0, 1)} : regs<8xf32>
    sched_barrier
    set_priority {level = 0}
    sched_barrier
    wait %flight_2
    set_priority {level = 1}
    %slot_ahead = and %32, 1 : i32
    %here_ahead = mul %slot_ahead, 8192 : i32
    %rb_ahead = add %sb, %here_ahead : i32
    %68 = load_mem %rb_ahead, %Bs, slot = %slot_ahead {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (3072,)} : regs<8xbf16>
    %69 = concat %53, %31 : regs<16xbf16>
    sched_barrier
    %70 = mma_sync %49, %69, %40 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (0, 2, 1)} : regs<8xf32>
    sched_barrier
    %next_ahead = add %32, 1 : i32
    %slot_ahead_ahead = and %next_ahead, 1 : i32
    %bytes_ahead = mul %slot_ahead_ahead, 8192 : i32
    %db_ahead_1 = add %sb, %bytes_ahead : i32
    %more_ahead_1 = cmp %next_ahead, %n {predicate = "lt"} : bool
    %71 = cp_async %db_ahead_1, %o, base = %b, enable = %more_ahead_1, %Bs, dst_slot = %slot_ahead_ahead, %B {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
    %72 = load_mem %rb_ahead, %Bs, slot = %slot_ahead {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
    %73 = concat %45, %37 : regs<16xbf16>
    sched_barrier
    %74 = mma_sync %57, %73, %44 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (1, 0, 1)} : regs<8xf32>
    sched_barrier
    %75 = cp_async %db_ahead_1, %o, base = %b, enable = %more_ahead_1, %Bs, dst_slot = %slot_ahead_ahead, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
    %76 = load_mem %rb_ahead, %Bs, slot = %slot_ahead {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %77 = concat %53, %31 : regs<16xbf16>
    sched_barrier
    %78 = mma_sync %57, %77, %48 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (1, 2, 1)} : regs<8xf32>
    sched_barrier
    %da_ahead_1 = add %sa, %bytes_ahead : i32
    %79 = cp_async %da_ahead_1, %o, base = %a, enable = %more_ahead_1, %As, dst_slot = %slot_ahead_ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (1024,), src_of = (0,), src_offsets = (192,), enable_of = (0,), wave = true, halves = (1,)} : token
    %ra_ahead = add %sa, %here_ahead : i32
    %80 = load_mem %ra_ahead, %As, slot = %slot_ahead {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %81 = concat %45, %37 : regs<16xbf16>
    sched_barrier
    %82 = mma_sync %65, %81, %52 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (2, 0, 1)} : regs<8xf32>
    sched_barrier
    %83 = cp_async %da_ahead_1, %o, base = %a, enable = %more_ahead_1, %As, dst_slot = %slot_ahead_ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (128,), enable_of = (0,), wave = true, halves = (0,)} : token
    %84 = join %71, %75, %79, %83 : token
    %85 = load_mem %rb_ahead, %Bs, slot = %slot_ahead {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (2048,)} : regs<8xbf16>
    %86 = concat %53, %31 : regs<16xbf16>
    sched_barrier
    %87 = mma_sync %65, %86, %56 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (2, 2, 1)} : regs<8xf32>
    sched_barrier
    %88 = load_mem %ra_ahead, %As, slot = %slot_ahead {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (1024,)} : regs<8xbf16>
    %89 = concat %45, %37 : regs<16xbf16>
    sched_barrier
    %90 = mma_sync %61, %89, %60 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (3, 0, 1)} : regs<8xf32>
    sched_barrier
    %91 = load_mem %rb_ahead, %Bs, slot = %slot_ahead {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (3136,)} : regs<8xbf16>
    %92 = concat %53, %31 : regs<16xbf16>
    sched_barrier
    %93 = mma_sync %61, %92, %64 {atom = "mfma16x16x32", repeats = (1, 2, 1), origin = (3, 2, 1)} : regs<8xf32>
    sched_barrier
    sched_barrier
    %m1 = concat %67, %70, %74, %78, %82, %87, %90, %93 : regs<64xf32>
    yield %m1, %flight_2, %80, %76, %72, %85, %68, %88, %91, %84
  }
  %94 = join %flight, %24 : token
  wait %94
  %w = global_address %C : i64
  store_mem %w, %c, %C {space = "global", address_of = (0 * 64,), offsets = (0, 4, .., 252)}
}
