// The head of each turn of a loop that reads memory; one that only computes has no row, nor has one with a loop in it.
// pass: record_turns
// target: sm_80
thread kernel @k(%A: tensor<64xf32>, %clocks: tensor<2x4x8xi64>) dims(N = %N: i32) attrs {threads = 64, profile = "clocks"} {
  %n = for 0, %N, 1, [0] : i32 (%i: i32, %s: i32) {
    %t = add %s, %i : i32
    yield %t
  }
  %a = global_address %A : i64
  for 0, %N, 1 (%j: i32) {
    for 0, %n, 1 (%k: i32) {
      %x = load_mem %a, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
      yield
    }
    yield
  }
}

// ----
thread kernel @k(%A: tensor<64xf32>, %clocks: tensor<2x4x8xi64>) dims(N = %N: i32) attrs {threads = 64, profile = "clocks"} {
  %0 = special {register = "tid.x"} : i32
  %1 = shr %0, 5 : i32
  %2 = special {register = "laneid"} : i32
  %3 = cmp %2, 0 {predicate = "eq"} : bool
  %4 = cmp %1, 4 {predicate = "lt"} : bool
  %5 = and %3, %4 : bool
  %6 = special {register = "ctaid.x"} : i32
  %7 = cmp %6, 0 {predicate = "eq"} : bool
  %8 = and %5, %7 : bool
  %9 = special {register = "ctaid.y"} : i32
  %10 = cmp %9, 0 {predicate = "eq"} : bool
  %11 = and %8, %10 : bool
  %12 = special {register = "ctaid.z"} : i32
  %13 = cmp %12, 0 {predicate = "eq"} : bool
  %14 = and %11, %13 : bool
  %15 = mul %1, 64 : i32
  %16 = cast %15 {to = i64} : i64
  %17 = global_address %clocks : i64
  %18 = add %17, %16 : i64
  %n = for 0, %N, 1, [0] : i32 (%i: i32, %s: i32) {
    %t = add %s, %i : i32
    yield %t
  }
  %a = global_address %A : i64
  for 0, %N, 1 (%j: i32) {
    %19 = add %18, 64:i64 : i64
    %clock = for 0, %n, 1, [%18] : i64 (%k: i32, %clock_1: i64) {
      %20 = cmp %clock_1, %19 {predicate = "lt"} : bool
      %21 = and %14, %20 : bool
      ptx_effect [%21, %clock_1], [%clocks] {text = ".reg .u64 t; mov.u64 t, %clock64; @%first st.global.b64 [%place], t;", names = ("%first", "%place"), touches = "write"}
      %22 = add %clock_1, 8:i64 : i64
      %x = load_mem %a, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
      yield %22
    }
    yield
  }
}
