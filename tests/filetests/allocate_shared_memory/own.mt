// pass: allocate_shared_memory
// S and T are never needed at the same time, and so small that a barrier between them would cost more than bytes of
// their own. L and M share theirs.
thread kernel @own() attrs {threads = 128} {
  %L = alloc {type_ = shared<512xf32>}
  %S = alloc {type_ = shared<32xf32>}
  %T = alloc {type_ = shared<32xf32>}
  %M = alloc {type_ = shared<256xf32>}
  %l = buffer_address %L
  store_mem %l, 1.0, %L {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %T {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %M {space = "shared", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @own() attrs {threads = 128, shared_bytes = 2304} {
  %L = alloc {type_ = shared<512xf32>, offset = 0, bytes = 2048} : shared<512xf32>
  %S = alloc {type_ = shared<32xf32>, offset = 2048, bytes = 128} : shared<32xf32>
  %T = alloc {type_ = shared<32xf32>, offset = 2176, bytes = 128} : shared<32xf32>
  %M = alloc {type_ = shared<256xf32>, offset = 0, bytes = 1024} : shared<256xf32>
  %l = buffer_address %L : i32
  store_mem %l, 1.0, %L {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %T {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %M {space = "shared", address_of = (0,), offsets = (0,)}
}
