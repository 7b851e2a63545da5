// Rows up to a limit: the mask is the same for all of a row, so a store takes neighbours together. Where it depends on
// the column it does not, and the tile is spread so that neighbours are in neighbouring threads.
// pass: infer_layouts, lower, simplify, cse
// target: sm_80
tile kernel @rows(%A: tensor<16x16xf32>, %B: tensor<16x16xf32>, %C: tensor<16x16xf32>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0, 0] {shape = (16, 16), dims = (0, 1)} : tile<16x16xf32>
    %i = iota {shape = (16,), dim = 0} : tile<16xi32>
    %in = cmp %i, %n {predicate = "lt"} : tile<16xbool>
    %rows = expand %in {dim = 1, size = 16} : tile<16x16xbool>
    store %B[0, 0], %a, mask = %rows {dims = (0, 1)}
    %c = load %A[0, 0] {shape = (16, 16), dims = (0, 1)} : tile<16x16xf32>
    %columns = expand %in {dim = 0, size = 16} : tile<16x16xbool>
    store %C[0, 0], %c, mask = %columns {dims = (0, 1)}
  }
}

// ----
thread kernel @rows(%A: tensor<16x16xf32>, %B: tensor<16x16xf32>, %C: tensor<16x16xf32>, %n: i32) attrs {threads = 32} {
  %tid = special {register = "tid.x"} : i32
  %0 = shr %tid, 2 : i32
  %1 = and %tid, 3 : i32
  %2 = mul %1, 4 : i32
  %3 = global_address %A : i64
  %4 = cast %0 {to = i64} : i64
  %5 = mul %4, 64:i64 : i64
  %6 = add %3, %5 : i64
  %7 = cast %2 {to = i64} : i64
  %8 = mul %7, 4:i64 : i64
  %9 = add %6, %8 : i64
  %a = load_mem %9, %A {space = "global", dtype = f32, count = 8, width = 4, address_of = (0, 0), offsets = (0, 512)} : regs<8xf32>
  %i = offsets %0 {constants = (0, 8)} : regs<2xi32>
  %in = cmp %i, %n {predicate = "lt"} : regs<2xbool>
  %rows = pick %in {indices = (0, 0, 0, 0, 1, 1, 1, 1)} : regs<8xbool>
  %10 = pick %rows {indices = (0, 4)} : regs<2xbool>
  %11 = global_address %B : i64
  %12 = add %11, %5 : i64
  %13 = add %12, %8 : i64
  store_mem %13, predicate = %10, %a, %B, [0, 0] {space = "global", width = 4, address_of = (0, 0), offsets = (0, 512), predicate_of = (0, 1), extent = (16, 16)}
  %c = load_mem %9, %A {space = "global", dtype = f32, count = 8, width = 4, address_of = (0, 0), offsets = (0, 512)} : regs<8xf32>
  %exchange = alloc {type_ = shared<16xu8>, layout = shared<16xb8; 16:8>, bytes = 16} : shared<16xu8>
  %14 = cmp %1, 0 {predicate = "eq"} : bool
  %15 = buffer_address %exchange : i32
  %16 = add %15, %0 : i32
  %17 = cast %in {to = u8} : regs<2xu8>
  store_mem %16, predicate = %14, %17, %exchange {space = "shared", address_of = (0, 0), offsets = (0, 8), predicate_of = (0, 0)}
  %18 = add %15, %2 : i32
  %19 = load_mem %18, %exchange {space = "shared", dtype = u8, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xu8>
  %in_1 = cast %19 {to = bool} : regs<4xbool>
  %columns = pick %in_1 {indices = (0, 1, 2, 3, 0, 1, 2, 3)} : regs<8xbool>
  %20 = pick %columns {indices = (0, 4)} : regs<2xbool>
  %21 = pick %columns {indices = (3, 7)} : regs<2xbool>
  %22 = and %20, %21 : regs<2xbool>
  %23 = or %20, %21 : regs<2xbool>
  %24 = not %22 : regs<2xbool>
  %25 = and %23, %24 : regs<2xbool>
  %26 = global_address %C : i64
  %27 = add %26, %5 : i64
  %28 = add %27, %8 : i64
  store_mem %28, predicate = %22, %c, %C, [0, 0] {space = "global", width = 4, address_of = (0, 0), offsets = (0, 512), predicate_of = (0, 1), extent = (16, 16), whole = 1}
  %29 = pick %25 {indices = (0,)} : bool
  %30 = pick %25 {indices = (1,)} : bool
  %31 = or %29, %30 : bool
  if %31 then {
    %32 = pick %25 {indices = (0, 0, 0, 0, 1, 1, 1, 1)} : regs<8xbool>
    %33 = and %32, %columns : regs<8xbool>
    store_mem %28, predicate = %33, %c, %C, [0, 0] {space = "global", address_of = (0 * 8,), offsets = (0, 4, 8, 12, 512, 516, 520, 524), predicate_of = (0, 1, .., 7), extent = (16, 16), whole = 1}
    yield
  } orelse {
    yield
  }
}
