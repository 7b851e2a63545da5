// Each thread has its elements under either shape: other numbers for the same registers. Where a row ends amid a thread's
// run, all goes through shared memory, row by row.
// pass: infer_layouts, lower, simplify, cse
// target: sm_80
tile kernel @k(%A: tensor<4x32xf32>, %B: tensor<8x16xf32>, %C: tensor<3x20xf32>, %D: tensor<5x12xf32>) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0, 0] {shape = (4, 32), dims = (0, 1)} : tile<4x32xf32>
    %b = reshape %a {shape = (8, 16)} : tile<8x16xf32>
    store %B[0, 0], %b {dims = (0, 1)}
    %c = load %C[0, 0] {shape = (3, 20), dims = (0, 1)} : tile<3x20xf32>
    %d = reshape %c {shape = (5, 12)} : tile<5x12xf32>
    store %D[0, 0], %d {dims = (0, 1)}
  }
}

// ----
thread kernel @k(%A: tensor<4x32xf32>, %B: tensor<8x16xf32>, %C: tensor<3x20xf32>, %D: tensor<5x12xf32>) attrs {threads = 32} {
  %tid = special {register = "tid.x"} : i32
  %0 = shr %tid, 3 : i32
  %1 = and %tid, 7 : i32
  %2 = mul %1, 4 : i32
  %3 = global_address %A : i64
  %4 = cast %0 {to = i64} : i64
  %5 = mul %4, 128:i64 : i64
  %6 = add %3, %5 : i64
  %7 = cast %2 {to = i64} : i64
  %8 = mul %7, 4:i64 : i64
  %9 = add %6, %8 : i64
  %a = load_mem %9, %A {space = "global", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
  %10 = shr %tid, 2 : i32
  %11 = and %tid, 3 : i32
  %12 = mul %11, 4 : i32
  %13 = global_address %B : i64
  %14 = cast %10 {to = i64} : i64
  %15 = mul %14, 64:i64 : i64
  %16 = add %13, %15 : i64
  %17 = cast %12 {to = i64} : i64
  %18 = mul %17, 4:i64 : i64
  %19 = add %16, %18 : i64
  store_mem %19, %a, %B, [0, 0] {space = "global", width = 4, address_of = (0,), offsets = (0,), extent = (8, 16)}
  %20 = sub 20, %tid : i32
  %21 = cmp 0, %20 {predicate = "lt"} : bool
  %22 = global_address %C : i64
  %23 = cast %tid {to = i64} : i64
  %24 = mul %23, 4:i64 : i64
  %25 = add %22, %24 : i64
  %c = load_mem %25, predicate = %21, %C {space = "global", dtype = f32, count = 3, address_of = (0, 0, 0), offsets = (0, 80, 160), predicate_of = (0, 0, 0)} : regs<3xf32>
  %reshape = alloc {type_ = shared<60xf32>, layout = shared<60xb32; 60:32>, bytes = 256} : shared<60xf32>
  %26 = buffer_address %reshape : i32
  %27 = mul %tid, 4 : i32
  %28 = add %26, %27 : i32
  store_mem %28, predicate = %21, %c, %reshape {space = "shared", address_of = (0, 0, 0), offsets = (0, 80, 160), predicate_of = (0, 0, 0)}
  %29 = shr %tid, 4 : i32
  %30 = mul %29, 48 : i32
  %31 = add %26, %30 : i32
  %32 = and %tid, 15 : i32
  %33 = mul %32, 4 : i32
  %34 = add %31, %33 : i32
  %35 = sub 5, %29 : i32
  %36 = sub 12, %32 : i32
  %37 = cmp 0, %36 {predicate = "lt"} : bool
  %38 = cmp 4, %35 {predicate = "lt"} : bool
  %39 = and %38, %37 : bool
  %40 = concat %37, %37, %39 : regs<3xbool>
  %d = load_mem %34, predicate = %40, %reshape {space = "shared", dtype = f32, count = 3, address_of = (0, 0, 0), offsets = (0, 96, 192), predicate_of = (0, 1, 2)} : regs<3xf32>
  %41 = global_address %D : i64
  %42 = cast %29 {to = i64} : i64
  %43 = mul %42, 48:i64 : i64
  %44 = add %41, %43 : i64
  %45 = cast %32 {to = i64} : i64
  %46 = mul %45, 4:i64 : i64
  %47 = add %44, %46 : i64
  store_mem %47, predicate = %40, %d, %D, [0, 0] {space = "global", address_of = (0, 0, 0), offsets = (0, 96, 192), predicate_of = (0, 1, 2), extent = (5, 12)}
}
