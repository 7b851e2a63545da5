// pass: allocate_shared_memory
// Largest first: L at 0, then S and T one after the other in the bytes behind it, and U where L was. V is filled until
// the wait, so that U and W are not put there. N is never accessed and takes no room.
thread kernel @lives(%A: tensor<1024xf32>) attrs {threads = 128} {
  %L = alloc {type_ = shared<2048xf32>}
  %S = alloc {type_ = shared<256xf32>}
  %T = alloc {type_ = shared<128xf32>}
  %U = alloc {type_ = shared<64xf32>}
  %V = alloc {type_ = shared<2 versions x 64xf32>}
  %W = alloc {type_ = shared<64xf32>}
  %N = alloc {type_ = shared<999xf32>}
  %l = buffer_address %L
  %g = global_address %A
  store_mem %l, 1.0, %L {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %T {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %L {space = "shared", address_of = (0,), offsets = (0,)}
  %v = cp_async %l, %g, %V, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %tv = join %v
  store_mem %l, 1.0, %U {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %W {space = "shared", address_of = (0,), offsets = (0,)}
  wait %tv
}

// ----
thread kernel @lives(%A: tensor<1024xf32>) attrs {threads = 128, shared_bytes = 9216} {
  %L = alloc {type_ = shared<2048xf32>, offset = 0, bytes = 8192} : shared<2048xf32>
  %S = alloc {type_ = shared<256xf32>, offset = 8192, bytes = 1024} : shared<256xf32>
  %T = alloc {type_ = shared<128xf32>, offset = 8192, bytes = 512} : shared<128xf32>
  %U = alloc {type_ = shared<64xf32>, offset = 512, bytes = 256} : shared<64xf32>
  %V = alloc {type_ = shared<2 versions x 64xf32>, offset = 0, bytes = 256} : shared<2 versions x 64xf32>
  %W = alloc {type_ = shared<64xf32>, offset = 512, bytes = 256} : shared<64xf32>
  %N = alloc {type_ = shared<999xf32>, offset = 0, bytes = 3996} : shared<999xf32>
  %l = buffer_address %L : i32
  %g = global_address %A : i64
  store_mem %l, 1.0, %L {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %T {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %L {space = "shared", address_of = (0,), offsets = (0,)}
  %v = cp_async %l, %g, %V, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %tv = join %v : token
  store_mem %l, 1.0, %U {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %l, 1.0, %W {space = "shared", address_of = (0,), offsets = (0,)}
  wait %tv
}
