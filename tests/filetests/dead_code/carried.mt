// What is carried round without a use goes, with the load that fed it; the store and what it needs stay.
// pass: dead_code
thread kernel @k(%A: tensor<128xf32>, %n: i32) {
  %base = global_address %A : i64
  %unused = mul %n, %n : i32
  %sum, %dead = for 0, %n, 1, [0.0, 0.0] (%k: i32, %a: f32, %b: f32) {
    %x = load_mem %base, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %y = load_mem %base, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (4,)} : f32
    %a1 = add %a, %x : f32
    %b1 = add %b, %y : f32
    yield %a1, %b1
  }
  %small = cmp %n, 1 {predicate = "lt"} : bool
  if %small then {
    %nothing = add %n, 1 : i32
    yield
  } orelse {
    yield
  }
  store_mem %base, %sum, %A {space = "global", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @k(%A: tensor<128xf32>, %n: i32) {
  %base = global_address %A : i64
  %sum = for 0, %n, 1, [0.0] : f32 (%k: i32, %a: f32) {
    %x = load_mem %base, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %a1 = add %a, %x : f32
    yield %a1
  }
  store_mem %base, %sum, %A {space = "global", address_of = (0,), offsets = (0,)}
}
