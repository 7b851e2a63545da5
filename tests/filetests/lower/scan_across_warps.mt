// From the last element on: the totals of all warps meet in shared memory, and each warp adds those behind it, which are
// the registers in front of it in the order of the scan.
// pass: infer_layouts, lower, simplify, cse
// target: sm_80
tile kernel @row(%A: tensor<1x256xi32>, %B: tensor<1x256xi32>) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0, 0] {shape = (1, 256), dims = (0, 1)} : tile<1x256xi32>
    %s = scan %a {dim = 1, kind = "sum", reverse = true} : tile<1x256xi32>
    store %B[0, 0], %s {dims = (0, 1)}
  }
}

// ----
thread kernel @row(%A: tensor<1x256xi32>, %B: tensor<1x256xi32>) attrs {threads = 64} {
  %tid = special {register = "tid.x"} : i32
  %0 = mul %tid, 4 : i32
  %1 = global_address %A : i64
  %2 = cast %0 {to = i64} : i64
  %3 = mul %2, 4:i64 : i64
  %4 = add %1, %3 : i64
  %a = load_mem %4, %A {space = "global", dtype = i32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xi32>
  %5 = pick %a {indices = (0,)} : i32
  %6 = pick %a {indices = (1,)} : i32
  %7 = pick %a {indices = (2,)} : i32
  %8 = pick %a {indices = (3,)} : i32
  %9 = add %8, %7 : i32
  %10 = add %9, %6 : i32
  %11 = add %10, %5 : i32
  %12 = shuffle_xor %11 {mask = 1} : i32
  %13 = and %tid, 1 : i32
  %14 = cmp %13, 0 {predicate = "ne"} : bool
  %15 = select %14, 0, %12 : i32
  %16 = add %11, %12 : i32
  %17 = shuffle_xor %16 {mask = 2} : i32
  %18 = and %tid, 2 : i32
  %19 = cmp %18, 0 {predicate = "ne"} : bool
  %20 = add %17, %15 : i32
  %21 = select %19, %15, %20 : i32
  %22 = add %16, %17 : i32
  %23 = shuffle_xor %22 {mask = 4} : i32
  %24 = and %tid, 4 : i32
  %25 = cmp %24, 0 {predicate = "ne"} : bool
  %26 = add %23, %21 : i32
  %27 = select %25, %21, %26 : i32
  %28 = add %22, %23 : i32
  %29 = shuffle_xor %28 {mask = 8} : i32
  %30 = and %tid, 8 : i32
  %31 = cmp %30, 0 {predicate = "ne"} : bool
  %32 = add %29, %27 : i32
  %33 = select %31, %27, %32 : i32
  %34 = add %28, %29 : i32
  %35 = shuffle_xor %34 {mask = 16} : i32
  %36 = and %tid, 16 : i32
  %37 = cmp %36, 0 {predicate = "ne"} : bool
  %38 = add %35, %33 : i32
  %39 = select %37, %33, %38 : i32
  %40 = add %34, %35 : i32
  %exchange = alloc {type_ = shared<1x2xi32>, layout = shared<1x2xb32; 1; 2:32>, bytes = 16} : shared<1x2xi32>
  %41 = shr %tid, 5 : i32
  %42 = and %tid, 31 : i32
  %43 = cmp %42, 0 {predicate = "eq"} : bool
  %44 = buffer_address %exchange : i32
  %45 = mul %41, 4 : i32
  %46 = add %44, %45 : i32
  store_mem %46, predicate = %43, %40, %exchange {space = "shared", address_of = (0,), offsets = (0,), predicate_of = (0,)}
  %47 = load_mem %44, %exchange {space = "shared", dtype = i32, count = 2, width = 2, address_of = (0,), offsets = (0,)} : regs<2xi32>
  %48 = pick %47 {indices = (1,)} : i32
  %49 = cmp %41, 0 {predicate = "eq"} : bool
  %50 = select %49, %48, 0 : i32
  %51 = add %50, %39 : i32
  %52 = add %51, %8 : i32
  %53 = add %51, %9 : i32
  %54 = add %51, %10 : i32
  %55 = add %51, %11 : i32
  %56 = concat %52, %53, %54, %55 : regs<4xi32>
  %s = pick %56 {indices = (3, 2, 1, 0)} : regs<4xi32>
  %57 = global_address %B : i64
  %58 = add %57, %3 : i64
  store_mem %58, %s, %B, [0, 0] {space = "global", width = 4, address_of = (0,), offsets = (0,), extent = (1, 256)}
}
