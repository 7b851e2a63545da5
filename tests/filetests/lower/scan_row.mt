// A row of one warp: inclusive sums of a thread's registers, a butterfly over lanes in which a lane adds what comes from
// the half in front of it, and one addition of that to each element.
// pass: infer_layouts, lower, simplify, cse
// target: sm_80
tile kernel @row(%A: tensor<1x64xf32>, %B: tensor<1x64xf32>) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0, 0] {shape = (1, 64), dims = (0, 1)} : tile<1x64xf32>
    %s = scan %a {dim = 1, kind = "sum"} : tile<1x64xf32>
    store %B[0, 0], %s {dims = (0, 1)}
  }
}

// ----
thread kernel @row(%A: tensor<1x64xf32>, %B: tensor<1x64xf32>) attrs {threads = 32} {
  %tid = special {register = "tid.x"} : i32
  %0 = mul %tid, 2 : i32
  %1 = global_address %A : i64
  %2 = cast %0 {to = i64} : i64
  %3 = mul %2, 4:i64 : i64
  %4 = add %1, %3 : i64
  %a = load_mem %4, %A {space = "global", dtype = f32, count = 2, width = 2, address_of = (0,), offsets = (0,)} : regs<2xf32>
  %5 = pick %a {indices = (0,)} : f32
  %6 = pick %a {indices = (1,)} : f32
  %7 = add %5, %6 : f32
  %8 = shuffle_xor %7 {mask = 1} : f32
  %9 = and %tid, 1 : i32
  %10 = cmp %9, 0 {predicate = "ne"} : bool
  %11 = select %10, %8, 0.0 : f32
  %12 = add %7, %8 : f32
  %13 = shuffle_xor %12 {mask = 2} : f32
  %14 = and %tid, 2 : i32
  %15 = cmp %14, 0 {predicate = "ne"} : bool
  %16 = add %13, %11 : f32
  %17 = select %15, %16, %11 : f32
  %18 = add %12, %13 : f32
  %19 = shuffle_xor %18 {mask = 4} : f32
  %20 = and %tid, 4 : i32
  %21 = cmp %20, 0 {predicate = "ne"} : bool
  %22 = add %19, %17 : f32
  %23 = select %21, %22, %17 : f32
  %24 = add %18, %19 : f32
  %25 = shuffle_xor %24 {mask = 8} : f32
  %26 = and %tid, 8 : i32
  %27 = cmp %26, 0 {predicate = "ne"} : bool
  %28 = add %25, %23 : f32
  %29 = select %27, %28, %23 : f32
  %30 = add %24, %25 : f32
  %31 = shuffle_xor %30 {mask = 16} : f32
  %32 = and %tid, 16 : i32
  %33 = cmp %32, 0 {predicate = "ne"} : bool
  %34 = add %31, %29 : f32
  %35 = select %33, %34, %29 : f32
  %36 = add %35, %5 : f32
  %37 = add %35, %7 : f32
  %s = concat %36, %37 : regs<2xf32>
  %38 = global_address %B : i64
  %39 = add %38, %3 : i64
  store_mem %39, %s, %B, [0, 0] {space = "global", width = 2, address_of = (0,), offsets = (0,), extent = (1, 64)}
}
