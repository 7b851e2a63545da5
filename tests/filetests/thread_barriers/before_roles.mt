// pass: thread_barriers
// target: sm_90a
// All threads meet before roles part where one of the roles meets what has been touched; what none of them touches,
// %counts here, stays as it is, and what comes behind meets it.
thread kernel @before_roles(%counts: tensor<8xi32>, %C: tensor<256xf32>, %D: tensor<256xf32>) attrs {threads = 128, producer_threads = 128} {
  %n = global_address %counts
  %c = global_address %C
  %d = global_address %D
  %w = warp_index
  %p = cmp %w, 4 {predicate = "ge"}
  %x = load_mem %n, %counts {space = "global", dtype = i32, count = 1, address_of = (0,), offsets = (0,)}
  by_role %p {teams = ((0, none), (1, 128))} then {
    yield
  } orelse {
    store_mem %c, 1.0, %C {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
  store_mem %n, 0, %counts {space = "global", address_of = (0,), offsets = (0,)}
  store_mem %d, 1.0, %D {space = "global", address_of = (0,), offsets = (0,)}
  by_role %p {teams = ((0, none), (1, 128))} then {
    yield
  } orelse {
    %y = load_mem %d, %D {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    store_mem %c, %y, %C {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
}

// ----
thread kernel @before_roles(%counts: tensor<8xi32>, %C: tensor<256xf32>, %D: tensor<256xf32>) attrs {threads = 128, producer_threads = 128} {
  %n = global_address %counts : i64
  %c = global_address %C : i64
  %d = global_address %D : i64
  %w = warp_index : i32
  %p = cmp %w, 4 {predicate = "ge"} : bool
  %x = load_mem %n, %counts {space = "global", dtype = i32, count = 1, address_of = (0,), offsets = (0,)} : i32
  by_role %p {teams = ((0, none), (1, 128))} then {
    yield
  } orelse {
    store_mem %c, 1.0, %C {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
  barrier
  store_mem %n, 0, %counts {space = "global", address_of = (0,), offsets = (0,)}
  store_mem %d, 1.0, %D {space = "global", address_of = (0,), offsets = (0,)}
  barrier
  by_role %p {teams = ((0, none), (1, 128))} then {
    yield
  } orelse {
    %y = load_mem %d, %D {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    store_mem %c, %y, %C {space = "global", address_of = (0,), offsets = (0,)}
    yield
  }
}
