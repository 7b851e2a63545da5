// pass: thread_barriers, insert_vmcnt_waits
// target: gfx942
// What is stored to %W other waves load: the barrier in front of the loop waits for it, those for %S do not.
thread kernel @handed_over(%W: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>}
  %s = buffer_address %S
  %w = global_address %W
  store_mem %w, 1.0, %W {space = "global", address_of = (0,), offsets = (0,)}
  for 0, %n, 1 (%k: i32) {
    %x = load_mem %w, %W {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    store_mem %s, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
    %y = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  }
}

// ----
thread kernel @handed_over(%W: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>} : shared<128xf32>
  %s = buffer_address %S : i32
  %w = global_address %W : i64
  store_mem %w, 1.0, %W {space = "global", address_of = (0,), offsets = (0,)}
  barrier {drains = true}
  for 0, %n, 1 (%k: i32) {
    %x = load_mem %w, %W {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    barrier
    store_mem %s, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
    barrier
    %y = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  }
}
