// Registers, then lanes; the rows of a warp are its own, so no shared memory.
// pass: infer_layouts, lower, simplify, cse
// target: sm_80
tile kernel @rows(%A: tensor<4x256xf32>, %B: tensor<4xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0, 0] {shape = (4, 256), dims = (0, 1)} : tile<4x256xf32>
    %s = reduce %a {dim = 1, kind = "sum"} : tile<4xf32>
    store %B[0], %s {dims = (0,)}
  }
}

// ----
thread kernel @rows(%A: tensor<4x256xf32>, %B: tensor<4xf32>) attrs {threads = 128} {
  %tid = special {register = "tid.x"} : i32
  %0 = shr %tid, 5 : i32
  %1 = and %tid, 31 : i32
  %2 = mul %1, 4 : i32
  %3 = global_address %A : i64
  %4 = cast %0 {to = i64} : i64
  %5 = mul %4, 1024:i64 : i64
  %6 = add %3, %5 : i64
  %7 = cast %2 {to = i64} : i64
  %8 = mul %7, 4:i64 : i64
  %9 = add %6, %8 : i64
  %a = load_mem %9, %A {space = "global", dtype = f32, count = 8, width = 4, address_of = (0, 0), offsets = (0, 512)} : regs<8xf32>
  %10 = pick %a {indices = (0, 1, 2, 3)} : regs<4xf32>
  %11 = pick %a {indices = (4, 5, 6, 7)} : regs<4xf32>
  %12 = add %10, %11 : regs<4xf32>
  %13 = pick %12 {indices = (0, 1)} : regs<2xf32>
  %14 = pick %12 {indices = (2, 3)} : regs<2xf32>
  %15 = add %13, %14 : regs<2xf32>
  %16 = pick %15 {indices = (0,)} : f32
  %17 = pick %15 {indices = (1,)} : f32
  %18 = add %16, %17 : f32
  %19 = shuffle_xor %18 {mask = 1} : f32
  %20 = add %18, %19 : f32
  %21 = shuffle_xor %20 {mask = 2} : f32
  %22 = add %20, %21 : f32
  %23 = shuffle_xor %22 {mask = 4} : f32
  %24 = add %22, %23 : f32
  %25 = shuffle_xor %24 {mask = 8} : f32
  %26 = add %24, %25 : f32
  %27 = shuffle_xor %26 {mask = 16} : f32
  %s = add %26, %27 : f32
  %28 = cmp %1, 0 {predicate = "eq"} : bool
  %29 = global_address %B : i64
  %30 = mul %4, 4:i64 : i64
  %31 = add %29, %30 : i64
  store_mem %31, predicate = %28, %s, %B, [0] {space = "global", address_of = (0,), offsets = (0,), predicate_of = (0,), extent = (4,)}
}
