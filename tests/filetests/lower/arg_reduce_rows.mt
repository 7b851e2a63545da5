// A row is one warp's: a thread's four elements meet in the order of their indices, one comparison each (and one for
// NaN); lanes exchange the element, as an integer that compares likewise, and its index.
// pass: infer_layouts, lower, simplify, cse
// target: sm_80
tile kernel @rows(%A: tensor<1x128xf32>, %C: tensor<1xi32>) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0, 0] {shape = (1, 128), dims = (0, 1)} : tile<1x128xf32>
    %n = arg_reduce %a {dim = 1, kind = "max"} : tile<1xi32>
    store %C[0], %n {dims = (0,)}
  }
}


// ----
thread kernel @rows(%A: tensor<1x128xf32>, %C: tensor<1xi32>) attrs {threads = 32} {
  %tid = special {register = "tid.x"} : i32
  %0 = mul %tid, 4 : i32
  %1 = global_address %A : i64
  %2 = cast %0 {to = i64} : i64
  %3 = mul %2, 4:i64 : i64
  %4 = add %1, %3 : i64
  %a = load_mem %4, %A {space = "global", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
  %5 = offsets 0 {constants = (0, 1, 2, 3)} : regs<4xi32>
  %6 = pick %a {indices = (0, 2)} : regs<2xf32>
  %7 = pick %5 {indices = (0, 2)} : regs<2xi32>
  %8 = pick %a {indices = (1, 3)} : regs<2xf32>
  %9 = pick %5 {indices = (1, 3)} : regs<2xi32>
  %10 = cmp %6, %6 {predicate = "eq"} : regs<2xbool>
  %11 = cmp %8, %6 {predicate = "le"} : regs<2xbool>
  %12 = not %11 : regs<2xbool>
  %13 = and %10, %12 : regs<2xbool>
  %14 = select %13, %8, %6 : regs<2xf32>
  %15 = select %13, %9, %7 : regs<2xi32>
  %16 = pick %14 {indices = (0,)} : f32
  %17 = pick %15 {indices = (0,)} : i32
  %18 = pick %14 {indices = (1,)} : f32
  %19 = pick %15 {indices = (1,)} : i32
  %20 = cmp %16, %16 {predicate = "eq"} : bool
  %21 = cmp %18, %16 {predicate = "le"} : bool
  %22 = not %21 : bool
  %23 = and %20, %22 : bool
  %24 = select %23, %18, %16 : f32
  %25 = select %23, %19, %17 : i32
  %26 = add %25, %0 : i32
  %27 = reinterpret %24 {to = i32} : i32
  %28 = shr %27, 31 : i32
  %29 = and %28, 2147483647 : i32
  %30 = xor %27, %29 : i32
  %31 = cmp %24, 0.0 {predicate = "eq"} : bool
  %32 = select %31, 0, %30 : i32
  %33 = cmp %24, %24 {predicate = "ne"} : bool
  %34 = select %33, 2147483647, %32 : i32
  %35 = shuffle_xor %34 {mask = 1} : i32
  %36 = shuffle_xor %26 {mask = 1} : i32
  %37 = cmp %35, %34 {predicate = "gt"} : bool
  %38 = cmp %35, %34 {predicate = "eq"} : bool
  %39 = cmp %36, %26 {predicate = "lt"} : bool
  %40 = and %38, %39 : bool
  %41 = or %37, %40 : bool
  %42 = select %41, %35, %34 : i32
  %43 = select %41, %36, %26 : i32
  %44 = shuffle_xor %42 {mask = 2} : i32
  %45 = shuffle_xor %43 {mask = 2} : i32
  %46 = cmp %44, %42 {predicate = "gt"} : bool
  %47 = cmp %44, %42 {predicate = "eq"} : bool
  %48 = cmp %45, %43 {predicate = "lt"} : bool
  %49 = and %47, %48 : bool
  %50 = or %46, %49 : bool
  %51 = select %50, %44, %42 : i32
  %52 = select %50, %45, %43 : i32
  %53 = shuffle_xor %51 {mask = 4} : i32
  %54 = shuffle_xor %52 {mask = 4} : i32
  %55 = cmp %53, %51 {predicate = "gt"} : bool
  %56 = cmp %53, %51 {predicate = "eq"} : bool
  %57 = cmp %54, %52 {predicate = "lt"} : bool
  %58 = and %56, %57 : bool
  %59 = or %55, %58 : bool
  %60 = select %59, %53, %51 : i32
  %61 = select %59, %54, %52 : i32
  %62 = shuffle_xor %60 {mask = 8} : i32
  %63 = shuffle_xor %61 {mask = 8} : i32
  %64 = cmp %62, %60 {predicate = "gt"} : bool
  %65 = cmp %62, %60 {predicate = "eq"} : bool
  %66 = cmp %63, %61 {predicate = "lt"} : bool
  %67 = and %65, %66 : bool
  %68 = or %64, %67 : bool
  %69 = select %68, %62, %60 : i32
  %70 = select %68, %63, %61 : i32
  %71 = shuffle_xor %69 {mask = 16} : i32
  %72 = shuffle_xor %70 {mask = 16} : i32
  %73 = cmp %71, %69 {predicate = "gt"} : bool
  %74 = cmp %71, %69 {predicate = "eq"} : bool
  %75 = cmp %72, %70 {predicate = "lt"} : bool
  %76 = and %74, %75 : bool
  %77 = or %73, %76 : bool
  %n = select %77, %72, %70 : i32
  %78 = cmp %tid, 0 {predicate = "eq"} : bool
  %79 = global_address %C : i64
  store_mem %79, predicate = %78, %n, %C, [0] {space = "global", address_of = (0,), offsets = (0,), predicate_of = (0,), extent = (1,)}
}
