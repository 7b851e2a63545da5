// pass: sink_bulk_store_waits
// Each version is awaited before its bytes are written again, by any buffer; all of it before the tensor is touched.
thread kernel @parts(%C: tensor<64x64xbf16>, %D: tensor<64x64xbf16>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 64x64xbf16>, offset = 0, bytes = 8192}
  %T = alloc {type_ = shared<64xf32>, offset = 8192, bytes = 256}
  %s = buffer_address %S
  %t = buffer_address %T
  %c = global_address %C
  %a = tma_store %s[0, 0], %S, %C, slot = 0 {map = "C_map"}
  %ta = join %a
  wait %ta {reads = true}
  %b = tma_store %s[0, 0], %S, %C, slot = 1 {map = "C_map"}
  %tb = join %b
  wait %tb {reads = true}
  wait %tb
  wait %ta
  store_mem %t, 0.0, %T {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %s, 0.0:bf16, %S, slot = 0 {space = "shared", address_of = (0,), offsets = (0,)}
  %x = load_mem %c, %C {space = "global", dtype = bf16, count = 1, address_of = (0,), offsets = (0,)}
  %d = tma_store %s[0, 0], %S, %D, slot = 0 {map = "D_map"}
  %td = join %d
  wait %td
  %f = tma_store %s[0, 0], %S, %D, slot = 0 {map = "D_map"}
  %tf = join %f
  wait %tf
  barrier
  %r = tma_reduce %s[0, 0], %S, %D, slot = 0 {map = "D_map", kind = "add"}
  %tr = join %r
  wait %tr
  %u = tma_reduce %s[0, 0], %S, %D, slot = 1 {map = "D_map", kind = "add"}
  %tu = join %u
  wait %tu
}

// ----
thread kernel @parts(%C: tensor<64x64xbf16>, %D: tensor<64x64xbf16>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 64x64xbf16>, offset = 0, bytes = 8192} : shared<2 versions x 64x64xbf16>
  %T = alloc {type_ = shared<64xf32>, offset = 8192, bytes = 256} : shared<64xf32>
  %s = buffer_address %S : i32
  %t = buffer_address %T : i32
  %c = global_address %C : i64
  %a = tma_store %s, [0, 0], %S, %C, slot = 0 {map = "C_map"} : token<bulk>
  %ta = join %a : token<bulk>
  %b = tma_store %s, [0, 0], %S, %C, slot = 1 {map = "C_map"} : token<bulk>
  %tb = join %b : token<bulk>
  wait %tb {reads = true}
  wait %ta {reads = true}
  store_mem %t, 0.0, %T {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %s, 0.0:bf16, %S, slot = 0 {space = "shared", address_of = (0,), offsets = (0,)}
  wait %tb
  wait %ta
  %x = load_mem %c, %C {space = "global", dtype = bf16, count = 1, address_of = (0,), offsets = (0,)} : bf16
  %d = tma_store %s, [0, 0], %S, %D, slot = 0 {map = "D_map"} : token<bulk>
  %td = join %d : token<bulk>
  wait %td
  %f = tma_store %s, [0, 0], %S, %D, slot = 0 {map = "D_map"} : token<bulk>
  %tf = join %f : token<bulk>
  barrier
  wait %tf
  %r = tma_reduce %s, [0, 0], %S, %D, slot = 0 {map = "D_map", kind = "add"} : token<bulk>
  %tr = join %r : token<bulk>
  %u = tma_reduce %s, [0, 0], %S, %D, slot = 1 {map = "D_map", kind = "add"} : token<bulk>
  %tu = join %u : token<bulk>
  wait %tu {reads = true}
  wait %tr {reads = true}
}
