// pass: allocate_shared_memory
// A copy out of shared memory reads its source until it is awaited: %T and %U come before that, %V behind.
thread kernel @bulk(%C: tensor<64x64xbf16>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<64x64xbf16>}
  %T = alloc {type_ = shared<2048xf32>}
  %U = alloc {type_ = shared<2048xf32>}
  %V = alloc {type_ = shared<2048xf32>}
  %s = buffer_address %S
  %t = buffer_address %T
  %u = buffer_address %U
  %v = buffer_address %V
  %a = tma_store %s[0, 0], %S, %C {map = "C_map"}
  %ta = join %a
  store_mem %t, 0.0, %T {space = "shared", address_of = (0,), offsets = (0,)}
  wait %ta {reads = true}
  store_mem %u, 0.0, %U {space = "shared", address_of = (0,), offsets = (0,)}
  wait %ta
  store_mem %v, 0.0, %V {space = "shared", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @bulk(%C: tensor<64x64xbf16>, %n: i32) attrs {threads = 128, shared_bytes = 16384} {
  %S = alloc {type_ = shared<64x64xbf16>, offset = 0, bytes = 8192} : shared<64x64xbf16>
  %T = alloc {type_ = shared<2048xf32>, offset = 8192, bytes = 8192} : shared<2048xf32>
  %U = alloc {type_ = shared<2048xf32>, offset = 8192, bytes = 8192} : shared<2048xf32>
  %V = alloc {type_ = shared<2048xf32>, offset = 0, bytes = 8192} : shared<2048xf32>
  %s = buffer_address %S : i32
  %t = buffer_address %T : i32
  %u = buffer_address %U : i32
  %v = buffer_address %V : i32
  %a = tma_store %s, [0, 0], %S, %C {map = "C_map"} : token<bulk>
  %ta = join %a : token<bulk>
  store_mem %t, 0.0, %T {space = "shared", address_of = (0,), offsets = (0,)}
  wait %ta {reads = true}
  store_mem %u, 0.0, %U {space = "shared", address_of = (0,), offsets = (0,)}
  wait %ta
  store_mem %v, 0.0, %V {space = "shared", address_of = (0,), offsets = (0,)}
}
