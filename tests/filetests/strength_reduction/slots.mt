// A counter from 1 on begins at 1 mod 3, steps of 2 wrap by subtraction; equal slots are one carried value. A modulus that
// is not more than the step stays, and so does the slot of a loop that begins where only run time knows.
// pass: strength_reduction
// target: sm_80
thread kernel @slots(%A: tensor<128xf32>, %n: i32) attrs {threads = 32} {
  %a = global_address %A : i64
  for 1, %n, 2 (%k: i32) {
    %slot = truncmod %k, 3 : i32
    %same = floormod %k, 3 : i32
    %far = truncmod %k, 2 : i32
    %x = add %slot, %same : i32
    %y = add %x, %far : i32
    %f = cast %y {to = f32} : f32
    store_mem %a, %f, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
  for %n, 64, 1 (%j: i32) {
    %s = truncmod %j, 3 : i32
    %g = cast %s {to = f32} : f32
    store_mem %a, %g, %A {space = "global", address_of = (0,), offsets = (4,)}
    yield
  }
}

// ----
thread kernel @slots(%A: tensor<128xf32>, %n: i32) attrs {threads = 32} {
  %a = global_address %A : i64
  %0 = for 1, %n, 2, [1] : i32 (%k: i32, %slot: i32) {
    %slot_1 = truncmod %k, 3 : i32
    %same = floormod %k, 3 : i32
    %far = truncmod %k, 2 : i32
    %x = add %slot, %slot : i32
    %y = add %x, %far : i32
    %f = cast %y {to = f32} : f32
    store_mem %a, %f, %A {space = "global", address_of = (0,), offsets = (0,)}
    %1 = add %slot, 2 : i32
    %2 = sub %1, 3 : i32
    %3 = cmp %1, 3 {predicate = "ge"} : bool
    %4 = select %3, %2, %1 : i32
    yield %4
  }
  for %n, 64, 1 (%j: i32) {
    %s = truncmod %j, 3 : i32
    %g = cast %s {to = f32} : f32
    store_mem %a, %g, %A {space = "global", address_of = (0,), offsets = (4,)}
    yield
  }
}
