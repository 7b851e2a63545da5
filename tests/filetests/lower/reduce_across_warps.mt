// One row over all warps: the partial sums meet in shared memory, one writer each.
// pass: infer_layouts, lower, simplify, cse
// target: sm_80
tile kernel @row(%A: tensor<1x512xf32>, %B: tensor<1xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0, 0] {shape = (1, 512), dims = (0, 1)} : tile<1x512xf32>
    %s = reduce %a {dim = 1, kind = "sum"} : tile<1xf32>
    store %B[0], %s {dims = (0,)}
  }
}

// ----
thread kernel @row(%A: tensor<1x512xf32>, %B: tensor<1xf32>) attrs {threads = 128} {
  %tid = special {register = "tid.x"} : i32
  %0 = mul %tid, 4 : i32
  %1 = global_address %A : i64
  %2 = cast %0 {to = i64} : i64
  %3 = mul %2, 4:i64 : i64
  %4 = add %1, %3 : i64
  %a = load_mem %4, %A {space = "global", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
  %5 = pick %a {indices = (0, 1)} : regs<2xf32>
  %6 = pick %a {indices = (2, 3)} : regs<2xf32>
  %7 = add %5, %6 : regs<2xf32>
  %8 = pick %7 {indices = (0,)} : f32
  %9 = pick %7 {indices = (1,)} : f32
  %10 = add %8, %9 : f32
  %11 = shuffle_xor %10 {mask = 1} : f32
  %12 = add %10, %11 : f32
  %13 = shuffle_xor %12 {mask = 2} : f32
  %14 = add %12, %13 : f32
  %15 = shuffle_xor %14 {mask = 4} : f32
  %16 = add %14, %15 : f32
  %17 = shuffle_xor %16 {mask = 8} : f32
  %18 = add %16, %17 : f32
  %19 = shuffle_xor %18 {mask = 16} : f32
  %20 = add %18, %19 : f32
  %21 = shr %tid, 5 : i32
  %partial = alloc {type_ = shared<1x4xf32>, layout = shared<1x4xb32; 1; 4:32>, bytes = 16} : shared<1x4xf32>
  %22 = and %tid, 31 : i32
  %23 = cmp %22, 0 {predicate = "eq"} : bool
  %24 = buffer_address %partial : i32
  %25 = mul %21, 4 : i32
  %26 = add %24, %25 : i32
  store_mem %26, predicate = %23, %20, %partial {space = "shared", address_of = (0,), offsets = (0,), predicate_of = (0,)}
  %27 = load_mem %24, %partial {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
  %28 = pick %27 {indices = (0, 1)} : regs<2xf32>
  %29 = pick %27 {indices = (2, 3)} : regs<2xf32>
  %30 = add %28, %29 : regs<2xf32>
  %31 = pick %30 {indices = (0,)} : f32
  %32 = pick %30 {indices = (1,)} : f32
  %s = add %31, %32 : f32
  %33 = cmp %tid, 0 {predicate = "eq"} : bool
  %34 = global_address %B : i64
  store_mem %34, predicate = %33, %s, %B, [0] {space = "global", address_of = (0,), offsets = (0,), predicate_of = (0,), extent = (1,)}
}
