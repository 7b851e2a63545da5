// pass: drop_access_ranges
// What barriers wanted to know is dropped, so that nothing else keeps the indices alive.
thread kernel @k(%A: tensor<128x128xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<64x32xf32>, offset = 0, bytes = 8192}
  %s = buffer_address %S
  %a = global_address %A
  %row = mul %n, 64
  %x = load_mem %a, %A, [%row, 0] {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,), extent = (64, 32)}
  store_mem %a, %x, %A, [%row, 32] {space = "global", address_of = (0,), offsets = (0,), extent = (64, 32)}
  %t = tma_store %s, [32, %row], %S, %A, [%row, 32] {map = "A_map", extent = (64, 32)}
  %j = join %t
  wait %j
}

// ----
thread kernel @k(%A: tensor<128x128xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<64x32xf32>, offset = 0, bytes = 8192} : shared<64x32xf32>
  %s = buffer_address %S : i32
  %a = global_address %A : i64
  %row = mul %n, 64 : i32
  %x = load_mem %a, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  store_mem %a, %x, %A {space = "global", address_of = (0,), offsets = (0,)}
  %t = tma_store %s, [32, %row], %S, %A {map = "A_map"} : token<bulk>
  %j = join %t : token<bulk>
  wait %j
}
