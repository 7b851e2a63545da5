// pass: thread_barriers
// Each warp has a part of %S to itself: where it has met, nothing is pending there. Some lanes of it are not enough, and
// for %T, which all threads have, it is not.
thread kernel @warps(%A: tensor<1024xf32>) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>, shared_by = 32}
  %T = alloc {type_ = shared<128xf32>}
  %s = buffer_address %S
  %t = buffer_address %T
  %g = global_address %A
  store_mem %s, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  warp_barrier
  %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  warp_barrier {mask = 255}
  store_mem %s, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %t, 2.0, %T {space = "shared", address_of = (0,), offsets = (0,)}
  warp_barrier
  %y = load_mem %t, %T {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  store_mem %g, %y, %A {space = "global", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @warps(%A: tensor<1024xf32>) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>, shared_by = 32} : shared<128xf32>
  %T = alloc {type_ = shared<128xf32>} : shared<128xf32>
  %s = buffer_address %S : i32
  %t = buffer_address %T : i32
  %g = global_address %A : i64
  store_mem %s, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  warp_barrier
  %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  warp_barrier {mask = 255}
  barrier {id = 2, threads = 32, each = true}
  store_mem %s, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %t, 2.0, %T {space = "shared", address_of = (0,), offsets = (0,)}
  warp_barrier
  barrier
  %y = load_mem %t, %T {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  store_mem %g, %y, %A {space = "global", address_of = (0,), offsets = (0,)}
}
