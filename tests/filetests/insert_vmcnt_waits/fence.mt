// pass: thread_barriers, insert_vmcnt_waits
// target: gfx942
// What all threads have stored is made known by one: the barrier in front waits for it, the one behind for nothing.
thread kernel @told(%W: tensor<1024xf32>, %flag: tensor<1xi32>) attrs {threads = 128} {
  %t = special {register = "tid.x"}
  %w = global_address %W
  %f = global_address %flag
  store_mem %w, 1.0, %W {space = "global", address_of = (0,), offsets = (0,)}
  barrier
  %first = cmp %t, 0 {predicate = "eq"}
  if %first then {
    memory_fence {scope = "gpu"}
    store_mem %f, 1, %flag {space = "global", address_of = (0,), offsets = (0,)}
  } orelse {
  }
  barrier
}

// ----
thread kernel @told(%W: tensor<1024xf32>, %flag: tensor<1xi32>) attrs {threads = 128} {
  %t = special {register = "tid.x"} : i32
  %w = global_address %W : i64
  %f = global_address %flag : i64
  store_mem %w, 1.0, %W {space = "global", address_of = (0,), offsets = (0,)}
  barrier {drains = true}
  %first = cmp %t, 0 {predicate = "eq"} : bool
  if %first then {
    memory_fence {scope = "gpu"}
    store_mem %f, 1, %flag {space = "global", address_of = (0,), offsets = (0,)}
  } orelse {
  }
  barrier
}
