// pass: allocate_shared_memory
// TMA reads %T, so that it begins at a multiple of 128 bytes although it has 64; %S and %U are the threads' own.
thread kernel @small_boxes(%C: tensor<16xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<8xf32>}
  %T = alloc {type_ = shared<16xf32>}
  %U = alloc {type_ = shared<24xf32>}
  %s = buffer_address %S
  %t = buffer_address %T
  %u = buffer_address %U
  store_mem %s, 0.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %t, 0.0, %T {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %u, 0.0, %U {space = "shared", address_of = (0,), offsets = (0,)}
  %a = tma_store %t[0], %T, %C {map = "C_map"}
  %ta = join %a
  wait %ta
}

// ----
thread kernel @small_boxes(%C: tensor<16xf32>, %n: i32) attrs {threads = 128, shared_bytes = 192} {
  %S = alloc {type_ = shared<8xf32>, offset = 96, bytes = 32} : shared<8xf32>
  %T = alloc {type_ = shared<16xf32>, offset = 128, bytes = 64} : shared<16xf32>
  %U = alloc {type_ = shared<24xf32>, offset = 0, bytes = 96} : shared<24xf32>
  %s = buffer_address %S : i32
  %t = buffer_address %T : i32
  %u = buffer_address %U : i32
  store_mem %s, 0.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %t, 0.0, %T {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %u, 0.0, %U {space = "shared", address_of = (0,), offsets = (0,)}
  %a = tma_store %t, [0], %T, %C {map = "C_map"} : token<bulk>
  %ta = join %a : token<bulk>
  wait %ta
}
