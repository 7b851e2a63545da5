// %a, %b and %c are new in each turn of the loop, and give their bytes to one another in it, over branches, too. %old is
// not, and keeps its bytes through the loop; %e, new in a turn of the outer loop, through all turns of the inner one.
// pass: allocate_shared_memory
// target: sm_80
thread kernel @k(%n: i32, %some: bool) attrs {threads = 128} {
  %a = alloc {type_ = shared<64xf32>, lifetime = 1}
  %b = alloc {type_ = shared<64xf32>, lifetime = 1}
  %c = alloc {type_ = shared<64xf32>, lifetime = 2}
  %old = alloc {type_ = shared<64xf32>}
  %e = alloc {type_ = shared<64xf32>, lifetime = 1}
  %l = buffer_address %a
  for 0, %n, 1 (%t: i32) {
    lifetime {number = 1}
    store_mem %l, 1.0, %a {space = "shared", address_of = (0,), offsets = (0,)}
    store_mem %l, 1.0, %b {space = "shared", address_of = (0,), offsets = (0,)}
    if %some then {
      lifetime {number = 2}
      store_mem %l, 1.0, %c {space = "shared", address_of = (0,), offsets = (0,)}
    } orelse {
      store_mem %l, 1.0, %old {space = "shared", address_of = (0,), offsets = (0,)}
    }
    for 0, %n, 1 (%k: i32) {
      store_mem %l, 1.0, %e {space = "shared", address_of = (0,), offsets = (0,)}
    }
  }
}

// ----
thread kernel @k(%n: i32, %some: bool) attrs {threads = 128, shared_bytes = 512} {
  %a = alloc {type_ = shared<64xf32>, offset = 0, bytes = 256, lifetime = 1} : shared<64xf32>
  %b = alloc {type_ = shared<64xf32>, offset = 0, bytes = 256, lifetime = 1} : shared<64xf32>
  %c = alloc {type_ = shared<64xf32>, offset = 0, bytes = 256, lifetime = 2} : shared<64xf32>
  %old = alloc {type_ = shared<64xf32>, offset = 256, bytes = 256} : shared<64xf32>
  %e = alloc {type_ = shared<64xf32>, offset = 0, bytes = 256, lifetime = 1} : shared<64xf32>
  %l = buffer_address %a : i32
  for 0, %n, 1 (%t: i32) {
    store_mem %l, 1.0, %a {space = "shared", address_of = (0,), offsets = (0,)}
    store_mem %l, 1.0, %b {space = "shared", address_of = (0,), offsets = (0,)}
    if %some then {
      store_mem %l, 1.0, %c {space = "shared", address_of = (0,), offsets = (0,)}
    } orelse {
      store_mem %l, 1.0, %old {space = "shared", address_of = (0,), offsets = (0,)}
    }
    for 0, %n, 1 (%k: i32) {
      store_mem %l, 1.0, %e {space = "shared", address_of = (0,), offsets = (0,)}
    }
  }
}
