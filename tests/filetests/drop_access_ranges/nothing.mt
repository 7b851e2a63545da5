// pass: drop_access_ranges
// Accesses that do not say which part they touch stay as they are.
thread kernel @nothing(%A: tensor<128x128xf32>, %n: i32) attrs {threads = 128} {
  %a = global_address %A
  %x = load_mem %a, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  %some = cmp %n, 4 {predicate = "gt"}
  if %some then {
    store_mem %a, %x, %A {space = "global", address_of = (0,), offsets = (4,)}
  } orelse {
  }
}

// ----
thread kernel @nothing(%A: tensor<128x128xf32>, %n: i32) attrs {threads = 128} {
  %a = global_address %A : i64
  %x = load_mem %a, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  %some = cmp %n, 4 {predicate = "gt"} : bool
  if %some then {
    store_mem %a, %x, %A {space = "global", address_of = (0,), offsets = (4,)}
  } orelse {
  }
}
