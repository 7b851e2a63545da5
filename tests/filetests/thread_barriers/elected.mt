// pass: thread_barriers
// One thread alone cannot race with itself; the others wait for it.
thread kernel @elected(%A: tensor<1024xf32>) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>}
  %s = buffer_address %S
  %g = global_address %A
  %t = special {register = "tid.x"}
  %first = cmp %t, 0 {predicate = "eq"}
  if %first then {
    store_mem %s, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
    %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    %y = add %x, 1.0
    store_mem %s, %y, %S {space = "shared", address_of = (0,), offsets = (0,)}
  } orelse {
  }
  if %first then {
    store_mem %s, 3.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  } orelse {
  }
  %z = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  store_mem %g, %z, %A {space = "global", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @elected(%A: tensor<1024xf32>) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>} : shared<128xf32>
  %s = buffer_address %S : i32
  %g = global_address %A : i64
  %t = special {register = "tid.x"} : i32
  %first = cmp %t, 0 {predicate = "eq"} : bool
  if %first then {
    store_mem %s, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
    %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %y = add %x, 1.0 : f32
    store_mem %s, %y, %S {space = "shared", address_of = (0,), offsets = (0,)}
  } orelse {
  }
  if %first then {
    store_mem %s, 3.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  } orelse {
  }
  barrier
  %z = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  store_mem %g, %z, %A {space = "global", address_of = (0,), offsets = (0,)}
}
