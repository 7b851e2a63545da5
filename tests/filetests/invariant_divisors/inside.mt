// A division in a branch and in a loop inside, by what is made before the tiles; the inner loop's own divisor stays.
// pass: invariant_divisors
// target: gfx942
thread kernel @inside(%A: tensor<128xu32>, %n: i32, %d: u32) attrs {threads = 64} {
  %a = global_address %A : i64
  %e = add %d, 3:u32 : u32
  for 0, %n, 4 {apart = true} (%t: i32) {
    %u = cast %t {to = u32} : u32
    %c = cmp %u, %d {predicate = "lt"} : bool
    if %c {
      %r = truncmod %u, %e : u32
      store_mem %a, %r, %A {space = "global", address_of = (0,), offsets = (0,)}
      yield
    } {
      yield
    }
    for 0, %t, 1 (%k: i32) {
      %v = cast %k {to = u32} : u32
      %w = truncdiv %u, %v : u32
      %x = truncdiv %v, 10:u32 : u32
      %y = add %w, %x : u32
      store_mem %a, %y, %A {space = "global", address_of = (0,), offsets = (0,)}
      yield
    }
    yield
  }
}

// ----
thread kernel @inside(%A: tensor<128xu32>, %n: i32, %d: u32) attrs {threads = 64} {
  %a = global_address %A : i64
  %e = add %d, 3:u32 : u32
  %0 = max %e, 1:u32 : u32
  %1 = truncdiv 4294967295:u32, %0 : u32
  for 0, %n, 4 {apart = true} (%t: i32) {
    %u = cast %t {to = u32} : u32
    %c = cmp %u, %d {predicate = "lt"} : bool
    if %c then {
      %2 = cast %u {to = u64} : u64
      %3 = cast %1 {to = u64} : u64
      %4 = mul %2, %3 : u64
      %5 = shr %4, 32:u64 : u64
      %6 = cast %5 {to = u32} : u32
      %7 = mul %6, %e : u32
      %8 = sub %u, %7 : u32
      %9 = cmp %8, %e {predicate = "ge"} : bool
      %10 = add %6, 1:u32 : u32
      %11 = select %9, %10, %6 : u32
      %12 = sub %8, %e : u32
      %13 = select %9, %12, %8 : u32
      %14 = cmp %13, %e {predicate = "ge"} : bool
      %15 = add %11, 1:u32 : u32
      %16 = select %14, %15, %11 : u32
      %17 = sub %13, %e : u32
      %18 = select %14, %17, %13 : u32
      store_mem %a, %18, %A {space = "global", address_of = (0,), offsets = (0,)}
      yield
    } orelse {
      yield
    }
    for 0, %t, 1 (%k: i32) {
      %v = cast %k {to = u32} : u32
      %w = truncdiv %u, %v : u32
      %19 = cast %v {to = u64} : u64
      %20 = mul %19, 429496729:u64 : u64
      %21 = shr %20, 32:u64 : u64
      %22 = cast %21 {to = u32} : u32
      %23 = mul %22, 10:u32 : u32
      %24 = sub %v, %23 : u32
      %25 = cmp %24, 10:u32 {predicate = "ge"} : bool
      %26 = add %22, 1:u32 : u32
      %27 = select %25, %26, %22 : u32
      %28 = sub %24, 10:u32 : u32
      %29 = select %25, %28, %24 : u32
      %30 = cmp %29, 10:u32 {predicate = "ge"} : bool
      %31 = add %27, 1:u32 : u32
      %32 = select %30, %31, %27 : u32
      %33 = sub %29, 10:u32 : u32
      %34 = select %30, %33, %29 : u32
      %y = add %w, %32 : u32
      store_mem %a, %y, %A {space = "global", address_of = (0,), offsets = (0,)}
      yield
    }
    yield
  }
}
