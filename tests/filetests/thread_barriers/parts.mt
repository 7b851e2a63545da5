// pass: thread_barriers
// Parts 1 of a tile go to %C while it is staged block by block, by other threads than its lanes: nothing between them but
// each warp's own barriers. In another place of %C, and of another tile, they may meet.
thread kernel @parts(%C: tensor<"M"x"N"xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>, offset = 0, bytes = 512, shared_by = 32}
  %s = buffer_address %S
  %c = global_address %C
  store_mem %s, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (4,)}
  store_mem %c, %x, %C, [%n, 0] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32), whole = 1}
  store_mem %s, 2.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  %y = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (4,)}
  store_mem %c, %y, %C, [%n, 0] {space = "global", address_of = (0,), offsets = (8,), extent = (4, 32), whole = 1}
  %m = add %n, 1
  store_mem %c, %y, %C, [%m, 0] {space = "global", address_of = (0,), offsets = (8,), extent = (4, 32), whole = 1}
  store_mem %c, %y, %C, [%m, 0] {space = "global", address_of = (0,), offsets = (8,), extent = (4, 32), whole = 2}
}

// ----
thread kernel @parts(%C: tensor<MxNxf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>, offset = 0, bytes = 512, shared_by = 32} : shared<128xf32>
  %s = buffer_address %S : i32
  %c = global_address %C : i64
  store_mem %s, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  barrier {id = 2, threads = 32, each = true}
  %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (4,)} : f32
  store_mem %c, %x, %C, [%n, 0] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32), whole = 1}
  barrier {id = 2, threads = 32, each = true}
  store_mem %s, 2.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  barrier {id = 2, threads = 32, each = true}
  %y = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (4,)} : f32
  store_mem %c, %y, %C, [%n, 0] {space = "global", address_of = (0,), offsets = (8,), extent = (4, 32), whole = 1}
  %m = add %n, 1 : i32
  barrier
  store_mem %c, %y, %C, [%m, 0] {space = "global", address_of = (0,), offsets = (8,), extent = (4, 32), whole = 1}
  barrier
  store_mem %c, %y, %C, [%m, 0] {space = "global", address_of = (0,), offsets = (8,), extent = (4, 32), whole = 2}
}
