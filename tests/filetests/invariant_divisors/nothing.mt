// Numbers with a sign, and of 64 bits, stay; so nothing is made before the loop.
// pass: invariant_divisors
// target: sm_80
thread kernel @nothing(%A: tensor<128xi32>, %n: i32, %d: i32) attrs {threads = 32} {
  %a = global_address %A : i64
  for 0, %n, 4 {apart = true} (%t: i32) {
    %q = truncdiv %t, %d : i32
    %wide = cast %t {to = u64} : u64
    %l = truncmod %wide, 10:u64 : u64
    %m = cast %l {to = i32} : i32
    %x = add %q, %m : i32
    store_mem %a, %x, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
}

// ----
thread kernel @nothing(%A: tensor<128xi32>, %n: i32, %d: i32) attrs {threads = 32} {
  %a = global_address %A : i64
  for 0, %n, 4 {apart = true} (%t: i32) {
    %q = truncdiv %t, %d : i32
    %wide = cast %t {to = u64} : u64
    %l = truncmod %wide, 10:u64 : u64
    %m = cast %l {to = i32} : i32
    %x = add %q, %m : i32
    store_mem %a, %x, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
}
