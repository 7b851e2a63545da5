// Of a loop over tiles: quotient and remainder by the same number are made together, the reciprocal of a constant is a
// constant, a power of two stays, as does what the loop itself makes, or counts with a sign. Another loop is left alone.
// pass: invariant_divisors
// target: sm_90a
thread kernel @tiles(%A: tensor<128xu32>, %n: i32, %d: u32) attrs {threads = 32} {
  %a = global_address %A : i64
  for 0, %n, 4 {apart = true} (%t: i32) {
    %u = cast %t {to = u32} : u32
    %q = truncdiv %u, %d : u32
    %r = truncmod %u, %d : u32
    %c = truncdiv %q, 132:u32 : u32
    %p = truncdiv %c, 8:u32 : u32
    %own = truncdiv %r, %q : u32
    %signed = truncdiv %t, %n : i32
    %x = add %p, %own : u32
    %y = add %x, %r : u32
    store_mem %a, %y, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
  for 0, %n, 1 (%k: i32) {
    %v = cast %k {to = u32} : u32
    %w = truncdiv %v, %d : u32
    store_mem %a, %w, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
}

// ----
thread kernel @tiles(%A: tensor<128xu32>, %n: i32, %d: u32) attrs {threads = 32} {
  %a = global_address %A : i64
  %0 = max %d, 1:u32 : u32
  %1 = truncdiv 4294967295:u32, %0 : u32
  for 0, %n, 4 {apart = true} (%t: i32) {
    %u = cast %t {to = u32} : u32
    %2 = cast %u {to = u64} : u64
    %3 = cast %1 {to = u64} : u64
    %4 = mul %2, %3 : u64
    %5 = shr %4, 32:u64 : u64
    %6 = cast %5 {to = u32} : u32
    %7 = mul %6, %d : u32
    %8 = sub %u, %7 : u32
    %9 = cmp %8, %d {predicate = "ge"} : bool
    %10 = add %6, 1:u32 : u32
    %11 = select %9, %10, %6 : u32
    %12 = sub %8, %d : u32
    %13 = select %9, %12, %8 : u32
    %14 = cmp %13, %d {predicate = "ge"} : bool
    %15 = add %11, 1:u32 : u32
    %16 = select %14, %15, %11 : u32
    %17 = sub %13, %d : u32
    %18 = select %14, %17, %13 : u32
    %19 = cast %16 {to = u64} : u64
    %20 = mul %19, 32537631:u64 : u64
    %21 = shr %20, 32:u64 : u64
    %22 = cast %21 {to = u32} : u32
    %23 = mul %22, 132:u32 : u32
    %24 = sub %16, %23 : u32
    %25 = cmp %24, 132:u32 {predicate = "ge"} : bool
    %26 = add %22, 1:u32 : u32
    %27 = select %25, %26, %22 : u32
    %28 = sub %24, 132:u32 : u32
    %29 = select %25, %28, %24 : u32
    %30 = cmp %29, 132:u32 {predicate = "ge"} : bool
    %31 = add %27, 1:u32 : u32
    %32 = select %30, %31, %27 : u32
    %33 = sub %29, 132:u32 : u32
    %34 = select %30, %33, %29 : u32
    %p = truncdiv %32, 8:u32 : u32
    %own = truncdiv %18, %16 : u32
    %signed = truncdiv %t, %n : i32
    %x = add %p, %own : u32
    %y = add %x, %18 : u32
    store_mem %a, %y, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
  for 0, %n, 1 (%k: i32) {
    %v = cast %k {to = u32} : u32
    %w = truncdiv %v, %d : u32
    store_mem %a, %w, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
}
