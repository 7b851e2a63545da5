// pass: dead_code
// Of a branch's results those go that are not read, and with them what each side made them of. A loop that is left with
// nothing to do goes; one with a store stays. %b is not read behind the loop, but %a needs it in every turn.
thread kernel @branches(%A: tensor<128xf32>, %n: i32, %x: f32) {
  %base = global_address %A : i64
  %small = cmp %n, 8 {predicate = "lt"} : bool
  %wanted, %unwanted = if %small : f32, f32 then {
    %square = mul %x, %x : f32
    %cube = mul %square, %x : f32
    yield %square, %cube
  } orelse {
    %half = mul %x, 0.5 : f32
    yield %half, %x
  }
  for 0, %n, 1 (%k: i32) {
    %idle = add %k, 1 : i32
    yield
  }
  %a, %b = for 0, %n, 1, [%wanted, 1.0] : f32, f32 (%j: i32, %c: f32, %d: f32) {
    %c1 = mul %c, %d : f32
    %d1 = add %d, 1.0 : f32
    yield %c1, %d1
  }
  for 0, %n, 1 (%i: i32) {
    store_mem %base, %a, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
}

// ----
thread kernel @branches(%A: tensor<128xf32>, %n: i32, %x: f32) {
  %base = global_address %A : i64
  %small = cmp %n, 8 {predicate = "lt"} : bool
  %wanted = if %small : f32 then {
    %square = mul %x, %x : f32
    yield %square
  } orelse {
    %half = mul %x, 0.5 : f32
    yield %half
  }
  %a, %b = for 0, %n, 1, [%wanted, 1.0] : f32, f32 (%j: i32, %c: f32, %d: f32) {
    %c1 = mul %c, %d : f32
    %d1 = add %d, 1.0 : f32
    yield %c1, %d1
  }
  for 0, %n, 1 (%i: i32) {
    store_mem %base, %a, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
}
