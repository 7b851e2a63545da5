// pass: thread_barriers, insert_vmcnt_waits
// target: gfx942
// What %W holds is not written, and what is stored to %C is not read: the barriers, which are for %S, wait for nothing.
thread kernel @only_read(%W: tensor<1024xf32>, %C: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>}
  %s = buffer_address %S
  %w = global_address %W
  %c = global_address %C
  for 0, %n, 1 (%k: i32) {
    %x = load_mem %w, %W {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    store_mem %s, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
    %y = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  }
  %z = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (4,)}
  store_mem %c, %z, %C {space = "global", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @only_read(%W: tensor<1024xf32>, %C: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>} : shared<128xf32>
  %s = buffer_address %S : i32
  %w = global_address %W : i64
  %c = global_address %C : i64
  for 0, %n, 1 (%k: i32) {
    %x = load_mem %w, %W {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    barrier
    store_mem %s, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
    barrier
    %y = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  }
  %z = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (4,)} : f32
  store_mem %c, %z, %C {space = "global", address_of = (0,), offsets = (0,)}
}
