// pass: dead_code
// A load that is not read goes, and so does what only it needed. A store stays, and an atomic whose old value is not
// wanted: they do something.
thread kernel @effects(%A: tensor<128xf32>, %n: i32) {
  %base = global_address %A : i64
  %four = mul %n, 4 : i32
  %bytes = cast %four {to = i64} : i64
  %there = add %base, %bytes : i64
  %unread = load_mem %there, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  %old = atomic_mem %base, 1.0, %A {space = "global", kind = "add", address_of = (0,), offsets = (0,)} : f32
  store_mem %base, 2.0, %A {space = "global", address_of = (0,), offsets = (4,)}
}

// ----
thread kernel @effects(%A: tensor<128xf32>, %n: i32) {
  %base = global_address %A : i64
  %old = atomic_mem %base, 1.0, %A {space = "global", kind = "add", address_of = (0,), offsets = (0,)} : f32
  store_mem %base, 2.0, %A {space = "global", address_of = (0,), offsets = (4,)}
}
