// pass: thread_barriers
// 40 threads: a warp and a quarter. A full barrier counts them all, and nothing makes one unnecessary.
thread kernel @odd_threads(%A: tensor<1024xf32>) attrs {threads = 40} {
  %S = alloc {type_ = shared<128xf32>}
  %s = buffer_address %S
  %t = special {register = "tid.x"}
  %at = mul %t, 4
  %mine = add %s, %at
  %other = xor %at, 4
  %theirs = add %s, %other
  store_mem %mine, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  %x = load_mem %theirs, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  store_mem %mine, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
  %y = load_mem %theirs, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  %g = global_address %A
  store_mem %g, %y, %A {space = "global", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @odd_threads(%A: tensor<1024xf32>) attrs {threads = 40} {
  %S = alloc {type_ = shared<128xf32>} : shared<128xf32>
  %s = buffer_address %S : i32
  %t = special {register = "tid.x"} : i32
  %at = mul %t, 4 : i32
  %mine = add %s, %at : i32
  %other = xor %at, 4 : i32
  %theirs = add %s, %other : i32
  store_mem %mine, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  barrier
  %x = load_mem %theirs, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  barrier
  store_mem %mine, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
  barrier
  %y = load_mem %theirs, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  %g = global_address %A : i64
  store_mem %g, %y, %A {space = "global", address_of = (0,), offsets = (0,)}
}
