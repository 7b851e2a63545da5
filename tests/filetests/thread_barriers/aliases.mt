// pass: allocate_shared_memory, thread_barriers
// P and Q are never needed together and get the same bytes: a barrier between the last read of P and the first write of Q.
// R lives through the loop, whose next iteration may read what this one wrote.
thread kernel @aliases(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %P = alloc {type_ = shared<128xf32>}
  %Q = alloc {type_ = shared<128xf32>}
  %R = alloc {type_ = shared<64xf32>}
  %p = buffer_address %P
  %q = buffer_address %Q
  %r = buffer_address %R
  %g = global_address %A
  store_mem %p, 1.0, %P {space = "shared", address_of = (0,), offsets = (0,)}
  %x = load_mem %p, %P {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  store_mem %q, %x, %Q {space = "shared", address_of = (0,), offsets = (0,)}
  %y = load_mem %q, %Q {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  store_mem %g, %y, %A {space = "global", address_of = (0,), offsets = (0,)}
  for 0, %n, 1 (%k: i32) {
    %old = load_mem %r, %R {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    %T = alloc {type_ = shared<128xf32>}
    %a = buffer_address %T
    store_mem %a, %old, %T {space = "shared", address_of = (0,), offsets = (0,)}
    %z = load_mem %a, %T {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    store_mem %r, %z, %R {space = "shared", address_of = (0,), offsets = (0,)}
  }
}

// ----
thread kernel @aliases(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128, shared_bytes = 768} {
  %P = alloc {type_ = shared<128xf32>, offset = 0, bytes = 512} : shared<128xf32>
  %Q = alloc {type_ = shared<128xf32>, offset = 0, bytes = 512} : shared<128xf32>
  %R = alloc {type_ = shared<64xf32>, offset = 512, bytes = 256} : shared<64xf32>
  %p = buffer_address %P : i32
  %q = buffer_address %Q : i32
  %r = buffer_address %R : i32
  %g = global_address %A : i64
  store_mem %p, 1.0, %P {space = "shared", address_of = (0,), offsets = (0,)}
  barrier
  %x = load_mem %p, %P {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  barrier
  store_mem %q, %x, %Q {space = "shared", address_of = (0,), offsets = (0,)}
  barrier
  %y = load_mem %q, %Q {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  store_mem %g, %y, %A {space = "global", address_of = (0,), offsets = (0,)}
  for 0, %n, 1 (%k: i32) {
    barrier
    %old = load_mem %r, %R {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %T = alloc {type_ = shared<128xf32>, offset = 0, bytes = 512} : shared<128xf32>
    %a = buffer_address %T : i32
    store_mem %a, %old, %T {space = "shared", address_of = (0,), offsets = (0,)}
    barrier
    %z = load_mem %a, %T {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    store_mem %r, %z, %R {space = "shared", address_of = (0,), offsets = (0,)}
  }
}
