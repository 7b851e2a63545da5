// Words as halves and back: other names for the same registers, in the order in which each layout has them.
// pass: infer_layouts, lower, simplify, cse
// target: sm_80
tile kernel @k(%A: tensor<4x32xu32>, %B: tensor<4x64xf16>, %C: tensor<4x32xf32>) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0, 0] {shape = (4, 32), dims = (0, 1)} : tile<4x32xu32>
    %b = recast %a {to = f16} : tile<4x64xf16>
    %n = neg %b : tile<4x64xf16>
    store %B[0, 0], %n {dims = (0, 1)}
    %c = recast %n {to = f32} : tile<4x32xf32>
    store %C[0, 0], %c {dims = (0, 1)}
  }
}

// ----
thread kernel @k(%A: tensor<4x32xu32>, %B: tensor<4x64xf16>, %C: tensor<4x32xf32>) attrs {threads = 32} {
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
  %a = load_mem %9, %A {space = "global", dtype = u32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xu32>
  %b = recast %a {to = f16} : regs<8xf16>
  %n = neg %b : regs<8xf16>
  %10 = mul %1, 8 : i32
  %11 = global_address %B : i64
  %12 = add %11, %5 : i64
  %13 = cast %10 {to = i64} : i64
  %14 = mul %13, 2:i64 : i64
  %15 = add %12, %14 : i64
  store_mem %15, %n, %B, [0, 0] {space = "global", width = 8, address_of = (0,), offsets = (0,), extent = (4, 64)}
  %c = recast %n {to = f32} : regs<4xf32>
  %16 = global_address %C : i64
  %17 = add %16, %5 : i64
  %18 = add %17, %8 : i64
  store_mem %18, %c, %C, [0, 0] {space = "global", width = 4, address_of = (0,), offsets = (0,), extent = (4, 32)}
}
