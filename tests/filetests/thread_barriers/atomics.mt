// pass: thread_barriers
// Atomics need no order among themselves, but one against plain reads and writes; global memory likewise.
thread kernel @atomics(%A: tensor<1024xf32>, %B: tensor<1024xf32>) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>}
  %s = buffer_address %S
  %g = global_address %A
  %h = global_address %B
  store_mem %s, 0.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  %u = atomic_mem %s, 1.0, %S {space = "shared", kind = "add", address_of = (0,), offsets = (0,)}
  %v = atomic_mem %s, 2.0, %S {space = "shared", kind = "add", address_of = (0,), offsets = (0,)}
  %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  store_mem %g, %x, %A {space = "global", address_of = (0,), offsets = (0,)}
  store_mem %h, %x, %B {space = "global", address_of = (0,), offsets = (0,)}
  %y = load_mem %g, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  store_mem %h, %y, %B {space = "global", address_of = (0,), offsets = (4,)}
}

// ----
thread kernel @atomics(%A: tensor<1024xf32>, %B: tensor<1024xf32>) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>} : shared<128xf32>
  %s = buffer_address %S : i32
  %g = global_address %A : i64
  %h = global_address %B : i64
  store_mem %s, 0.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  barrier
  %u = atomic_mem %s, 1.0, %S {space = "shared", kind = "add", address_of = (0,), offsets = (0,)} : f32
  %v = atomic_mem %s, 2.0, %S {space = "shared", kind = "add", address_of = (0,), offsets = (0,)} : f32
  barrier
  %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  store_mem %g, %x, %A {space = "global", address_of = (0,), offsets = (0,)}
  store_mem %h, %x, %B {space = "global", address_of = (0,), offsets = (0,)}
  barrier
  %y = load_mem %g, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  store_mem %h, %y, %B {space = "global", address_of = (0,), offsets = (4,)}
}
