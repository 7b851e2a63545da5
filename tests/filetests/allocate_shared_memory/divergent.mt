// Between branches that threads take by themselves no barrier can stand: %a and %b have bytes of their own, %c has those
// of %a.
// pass: allocate_shared_memory
// target: sm_80
thread kernel @k(%n: i32) attrs {threads = 128} {
  %a = alloc {type_ = shared<64xf32>}
  %b = alloc {type_ = shared<64xf32>}
  %c = alloc {type_ = shared<64xf32>}
  %l = buffer_address %a
  %t = special {register = "tid.x"}
  %low = cmp %t, %n {predicate = "lt"}
  if %low then {
    store_mem %l, 1.0, %a {space = "shared", address_of = (0,), offsets = (0,)}
  } orelse {
    store_mem %l, 1.0, %b {space = "shared", address_of = (0,), offsets = (0,)}
  }
  store_mem %l, 1.0, %c {space = "shared", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @k(%n: i32) attrs {threads = 128, shared_bytes = 512} {
  %a = alloc {type_ = shared<64xf32>, offset = 0, bytes = 256} : shared<64xf32>
  %b = alloc {type_ = shared<64xf32>, offset = 256, bytes = 256} : shared<64xf32>
  %c = alloc {type_ = shared<64xf32>, offset = 0, bytes = 256} : shared<64xf32>
  %l = buffer_address %a : i32
  %t = special {register = "tid.x"} : i32
  %low = cmp %t, %n {predicate = "lt"} : bool
  if %low then {
    store_mem %l, 1.0, %a {space = "shared", address_of = (0,), offsets = (0,)}
  } orelse {
    store_mem %l, 1.0, %b {space = "shared", address_of = (0,), offsets = (0,)}
  }
  store_mem %l, 1.0, %c {space = "shared", address_of = (0,), offsets = (0,)}
}
