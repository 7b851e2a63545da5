// 128 does not divide N: bounds are checked, one predicate for each vector of four (16 divides N).
// pass: infer_layouts, lower, simplify, cse
// target: sm_80
tile kernel @add(%A: tensor<Nxf32>, %B: tensor<Nxf32>) dims(N = %N: i32) facts {N = 16} attrs {threads = 128} {
  %g0 = add %N, 1023 : i32
  %g = floordiv %g0, 1024 : i32
  launch %g, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %o = mul %bx, 1024 : i32
    %a = load %A[%o] {shape = (1024,), dims = (0,)} : tile<1024xf32>
    %b = add %a, %a : tile<1024xf32>
    store %B[%o], %b {dims = (0,)}
  }
}

// ----
thread kernel @add(%A: tensor<Nxf32>, %B: tensor<Nxf32>) dims(N = %N: i32) facts {N = 16} attrs {threads = 128} {
  %bx = special {register = "ctaid.x"} : i32
  %tid = special {register = "tid.x"} : i32
  %0 = mul %tid, 4 : i32
  %1 = mul %bx, 1024 : i32
  %2 = add %1, %0 : i32
  %3 = sub %N, %2 : i32
  %4 = cmp 0, %3 {predicate = "lt"} : bool
  %5 = cmp 512, %3 {predicate = "lt"} : bool
  %6 = concat %4, %5 : regs<2xbool>
  %7 = global_address %A : i64
  %8 = cast %2 {to = i64} : i64
  %9 = mul %8, 4:i64 : i64
  %10 = add %7, %9 : i64
  %a = load_mem %10, predicate = %6, %A {space = "global", dtype = f32, count = 8, width = 4, address_of = (0, 0), offsets = (0, 2048), predicate_of = (0, 1)} : regs<8xf32>
  %b = add %a, %a : regs<8xf32>
  %11 = global_address %B : i64
  %12 = add %11, %9 : i64
  store_mem %12, predicate = %6, %b, %B, [%1] {space = "global", width = 4, address_of = (0, 0), offsets = (0, 2048), predicate_of = (0, 1), extent = (1024,)}
}
