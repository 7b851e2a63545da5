// pass: thread_barriers
// Only some threads come into the branch: the barrier that its load needs stands in front, for all of them; and before
// a branch inside a branch that differ, in front of the outer one. The branch on %n is the same for all.
thread kernel @divergent(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>}
  %s = buffer_address %S
  %g = global_address %A
  %t = special {register = "tid.x"}
  %some = cmp %t, 40 {predicate = "lt"}
  %fewer = cmp %t, 7 {predicate = "lt"}
  %all = cmp %n, 7 {predicate = "lt"}
  store_mem %s, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  if %some then {
    %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    store_mem %g, %x, %A {space = "global", address_of = (0,), offsets = (0,)}
  } orelse {
  }
  if %some then {
    if %fewer then {
      store_mem %s, 2.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
    } orelse {
    }
  } orelse {
  }
  if %all then {
    %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    store_mem %g, %x, %A {space = "global", address_of = (0,), offsets = (4,)}
  } orelse {
  }
}

// ----
thread kernel @divergent(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>} : shared<128xf32>
  %s = buffer_address %S : i32
  %g = global_address %A : i64
  %t = special {register = "tid.x"} : i32
  %some = cmp %t, 40 {predicate = "lt"} : bool
  %fewer = cmp %t, 7 {predicate = "lt"} : bool
  %all = cmp %n, 7 {predicate = "lt"} : bool
  store_mem %s, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  barrier
  if %some then {
    %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    store_mem %g, %x, %A {space = "global", address_of = (0,), offsets = (0,)}
  } orelse {
  }
  barrier
  if %some then {
    if %fewer then {
      store_mem %s, 2.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
    } orelse {
    }
  } orelse {
  }
  if %all then {
    barrier
    %x_1 = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    store_mem %g, %x_1, %A {space = "global", address_of = (0,), offsets = (4,)}
  } orelse {
  }
}
