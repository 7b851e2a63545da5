// pass: thread_barriers
// What was written before the loops is settled once, in front of them; inside nothing is written.
thread kernel @nested(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>}
  %s = buffer_address %S
  store_mem %s, 0.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  %sum = for 0, %n, 1, [0.0] : f32 (%i: i32, %c: f32) {
    %inner = for 0, %n, 1, [%c] : f32 (%j: i32, %d: f32) {
      %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
      %e = add %d, %x
      yield %e
    }
    yield %inner
  }
  store_mem %s, %sum, %S {space = "shared", address_of = (0,), offsets = (0,)}
  // A loop that writes and reads: each iteration needs two.
  for 0, %n, 1 (%i: i32) {
    %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    %y = add %x, 1.0
    store_mem %s, %y, %S {space = "shared", address_of = (0,), offsets = (0,)}
  }
}

// ----
thread kernel @nested(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>} : shared<128xf32>
  %s = buffer_address %S : i32
  store_mem %s, 0.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  barrier
  %sum = for 0, %n, 1, [0.0] : f32 (%i: i32, %c: f32) {
    %inner = for 0, %n, 1, [%c] : f32 (%j: i32, %d: f32) {
      %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
      %e = add %d, %x : f32
      yield %e
    }
    yield %inner
  }
  barrier
  store_mem %s, %sum, %S {space = "shared", address_of = (0,), offsets = (0,)}
  for 0, %n, 1 (%i_1: i32) {
    barrier
    %x_1 = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %y = add %x_1, 1.0 : f32
    barrier
    store_mem %s, %y, %S {space = "shared", address_of = (0,), offsets = (0,)}
  }
}
