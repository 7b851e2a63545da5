// One element, which all threads have: lane r of the first warp stores it to block r. Rows that threads have one each:
// their owners store them to one block after the other. Reductions of one buffer take its versions in turn.
// pass: infer_layouts, lower, simplify, cse
// target: sm_90a
tile kernel @sums(%A: tensor<512xf32>, %B: tensor<2xf32>, %C: tensor<2x128xf32>) attrs {threads = 128, cluster = (2, 1, 1)} {
  launch 2, 1, 1 {threads = 128, cluster = (2, 1, 1)} (%part: i32, %by: i32, %bz: i32) {
    %one = all_reduce_buffer {shape = (1,), dtype = f32, ranks = 2}
    %rows = all_reduce_buffer {shape = (128,), dtype = f32, ranks = 2}
    cluster_barrier
    %r = for 0, 4, 1, [0] : i32 (%k: i32, %n: i32) {
      %at = mul %part, 256
      %a = load %A[%at] {shape = (), dims = (none,)} : f32
      %s = splat %a {shape = (1,)} : tile<1xf32>
      %t = all_reduce %s, %one, %n {kind = "sum"} : tile<1xf32>
      store %B[%part], %t {dims = (0,)}
      %next = add %n, 1
      yield %next
    }
    %c = load %A[0] {shape = (128,), dims = (0,)} : tile<128xf32>
    %d = all_reduce %c, %rows, 0 {kind = "max"} : tile<128xf32>
    store %C[%part, 0], %d {dims = (none, 0)}
  }
}


// ----
thread kernel @sums(%A: tensor<512xf32>, %B: tensor<2xf32>, %C: tensor<2x128xf32>) attrs {threads = 128, cluster = (2, 1, 1)} {
  %part = special {register = "ctaid.x"} : i32
  %slots = alloc {type_ = shared<2 versions x 1x2xf32>, layout = shared<1x2xb32; 1; 2:32>, bytes = 16} : shared<2 versions x 1x2xf32>
  %slots_full = alloc {type_ = shared<2xu64>, layout = shared<2xb64; 2:64>, bytes = 16} : shared<2xu64>
  %tid = special {register = "tid.x"} : i32
  %0 = cmp %tid, 0 {predicate = "eq"} : bool
  if %0 then {
    %1 = buffer_address %slots_full : i32
    mbarrier_init %1, %slots_full {count = 1}
    %2 = add %1, 8 : i32
    mbarrier_init %2, %slots_full {count = 1}
    mbarrier_init_fence
    yield
  } orelse {
    yield
  }
  %slots_1 = alloc {type_ = shared<2 versions x 128x2xf32>, layout = shared<128x2xb32; 128:64; 2:32>, bytes = 1024} : shared<2 versions x 128x2xf32>
  %slots_full_1 = alloc {type_ = shared<2xu64>, layout = shared<2xb64; 2:64>, bytes = 16} : shared<2xu64>
  if %0 then {
    %3 = buffer_address %slots_full_1 : i32
    mbarrier_init %3, %slots_full_1 {count = 1}
    %4 = add %3, 8 : i32
    mbarrier_init %4, %slots_full_1 {count = 1}
    mbarrier_init_fence
    yield
  } orelse {
    yield
  }
  cluster_barrier
  %5 = global_address %A : i64
  %6 = buffer_address %slots_full : i32
  %rank = special {register = "cluster_ctarank"} : i32
  %7 = cmp %tid, 2 {predicate = "lt"} : bool
  %8 = min %tid, 1 : i32
  %9 = buffer_address %slots : i32
  %10 = global_address %B : i64
  %r = for 0, 4, 1, [0] : i32 (%k: i32, %n: i32) {
    %11 = mul %part, 256 : i32
    %12 = cast %11 {to = i64} : i64
    %13 = mul %12, 4:i64 : i64
    %14 = add %5, %13 : i64
    %a = load_mem %14, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %15 = and %n, 1 : i32
    %16 = shr %n, 1 : i32
    %17 = and %16, 1 : i32
    %18 = mul %15, 8 : i32
    %19 = add %6, %18 : i32
    mbarrier_expect %19, %slots_full, predicate = %0 {bytes = 8}
    %20 = map_rank %9, %8 : i32
    %21 = mul %15, 16 : i32
    %22 = mul %rank, 4 : i32
    %23 = add %20, %22 : i32
    %24 = add %23, %21 : i32
    %25 = map_rank %19, %8 : i32
    async_store %24, %25, predicate = %7, %a, %slots, %slots_full {address_of = (0,), offsets = (0,), predicate_of = (0,)}
    await_stores %19, %slots_full, %17, %slots {cluster = true}
    %26 = add %9, %21 : i32
    %27 = load_mem %26, %slots, slot = %15 {space = "shared", dtype = f32, count = 2, width = 2, address_of = (0,), offsets = (0,)} : regs<2xf32>
    %28 = pick %27 {indices = (0,)} : f32
    %29 = pick %27 {indices = (1,)} : f32
    %t = add %28, %29 : f32
    %30 = cast %part {to = i64} : i64
    %31 = mul %30, 4:i64 : i64
    %32 = add %10, %31 : i64
    store_mem %32, predicate = %0, %t, %B, [%part] {space = "global", address_of = (0,), offsets = (0,), predicate_of = (0,), extent = (1,)}
    %next = add %n, 1 : i32
    yield %next
  }
  %33 = cast %tid {to = i64} : i64
  %34 = mul %33, 4:i64 : i64
  %35 = add %5, %34 : i64
  %c = load_mem %35, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  %36 = buffer_address %slots_full_1 : i32
  mbarrier_expect %36, %slots_full_1, predicate = %0 {bytes = 1024}
  %37 = buffer_address %slots_1 : i32
  %38 = map_rank %37, 0 : i32
  %39 = mul %tid, 8 : i32
  %40 = mul %rank, 4 : i32
  %41 = add %39, %40 : i32
  %42 = add %38, %41 : i32
  %43 = map_rank %36, 0 : i32
  async_store %42, %43, %c, %slots_1, %slots_full_1 {address_of = (0,), offsets = (0,)}
  %44 = map_rank %37, 1 : i32
  %45 = add %44, %41 : i32
  %46 = map_rank %36, 1 : i32
  async_store %45, %46, %c, %slots_1, %slots_full_1 {address_of = (0,), offsets = (0,)}
  await_stores %36, %slots_full_1, 0, %slots_1 {cluster = true}
  %47 = add %37, %39 : i32
  %48 = load_mem %47, %slots_1, slot = 0 {space = "shared", dtype = f32, count = 2, width = 2, address_of = (0,), offsets = (0,)} : regs<2xf32>
  %49 = pick %48 {indices = (0,)} : f32
  %50 = pick %48 {indices = (1,)} : f32
  %d = max %49, %50 : f32
  %51 = global_address %C : i64
  %52 = cast %part {to = i64} : i64
  %53 = mul %52, 512:i64 : i64
  %54 = add %51, %53 : i64
  %55 = add %54, %34 : i64
  store_mem %55, %d, %C, [%part, 0] {space = "global", address_of = (0,), offsets = (0,), extent = (1, 128)}
}
