// pass: forget_corners
// What barriers wanted to know is dropped, so that nothing else keeps the indices alive.
thread kernel @k(%A: tensor<128x128xf32>, %n: i32) {
  %a = global_address %A
  %row = mul %n, 64
  %x = load_mem %a, %A, [%row, 0] {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,), extent = (64, 32)}
  store_mem %a, %x, %A, [%row, 32] {space = "global", address_of = (0,), offsets = (0,), extent = (64, 32)}
}

// ----
thread kernel @k(%A: tensor<128x128xf32>, %n: i32) {
  %a = global_address %A : i64
  %row = mul %n, 64 : i32
  %x = load_mem %a, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  store_mem %a, %x, %A {space = "global", address_of = (0,), offsets = (0,)}
}
