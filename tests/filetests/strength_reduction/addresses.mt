// What steps along is an i64 sum of something invariant and a multiple of the counter: %p by 12 bytes, from where the
// lower bound is. %q has an invariant that is made in the loop, %u counts without sign, which wraps, and %v steps by what
// only run time knows: they stay.
// pass: strength_reduction
// target: sm_80
thread kernel @addresses(%A: tensor<128xf32>, %n: i32, %step: i32) attrs {threads = 32} {
  %a = global_address %A : i64
  for %n, 64, 3 (%k: i32) {
    %four = mul %k, 4 : i32
    %less = sub %four, 8 : i32
    %bytes = cast %less {to = i64} : i64
    %p = add %a, %bytes : i64
    %x = load_mem %p, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %word = cast %x {to = i64} : i64
    %q = add %word, %bytes : i64
    %y = load_mem %q, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %plain = cast %k {to = u32} : u32
    %wide = cast %plain {to = i64} : i64
    %u = add %a, %wide : i64
    store_mem %u, %y, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
  for 0, 64, %step (%j: i32) {
    %far = cast %j {to = i64} : i64
    %v = add %a, %far : i64
    store_mem %v, 1.0, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
}

// ----
thread kernel @addresses(%A: tensor<128xf32>, %n: i32, %step: i32) attrs {threads = 32} {
  %a = global_address %A : i64
  %0 = cast %n {to = i64} : i64
  %1 = mul %0, 4:i64 : i64
  %2 = add %a, %1 : i64
  %3 = add %2, -8:i64 : i64
  %4 = for %n, 64, 3, [%3] : i64 (%k: i32, %p: i64) {
    %four = mul %k, 4 : i32
    %less = sub %four, 8 : i32
    %bytes = cast %less {to = i64} : i64
    %p_1 = add %a, %bytes : i64
    %x = load_mem %p, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %word = cast %x {to = i64} : i64
    %q = add %word, %bytes : i64
    %y = load_mem %q, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %plain = cast %k {to = u32} : u32
    %wide = cast %plain {to = i64} : i64
    %u = add %a, %wide : i64
    store_mem %u, %y, %A {space = "global", address_of = (0,), offsets = (0,)}
    %5 = add %p, 12:i64 : i64
    yield %5
  }
  for 0, 64, %step (%j: i32) {
    %far = cast %j {to = i64} : i64
    %v = add %a, %far : i64
    store_mem %v, 1.0, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
}
