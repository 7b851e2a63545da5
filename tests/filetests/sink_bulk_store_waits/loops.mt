// pass: sink_bulk_store_waits
// What a round has left over is carried into the next one: the waits stand before the version and the tensor are written again, or behind the loop.
thread kernel @loops(%C: tensor<Mx64xbf16>, %D: tensor<64x64xbf16>, %n: i32) dims(M = %M: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 64x64xbf16>, offset = 0, bytes = 8192}
  %s = buffer_address %S
  %sum = for 0, %n, 1, [0] : i32 (%k: i32, %c: i32) {
    %d = add %k, %c
    store_mem %s, 0.0:bf16, %S, slot = 0 {space = "shared", address_of = (0,), offsets = (0,)}
    %a = tma_store %s[0, %k], %S, %C, slot = 0 {map = "C_map"}
    %ta = join %a
    wait %ta {reads = true}
    store_mem %s, 0.0:bf16, %S, slot = 1 {space = "shared", address_of = (0,), offsets = (0,)}
    %b = tma_store %s[0, %k], %S, %C, slot = 1 {map = "C_map"}
    %tb = join %b
    wait %tb {reads = true}
    wait %tb
    wait %ta
    yield %d
  }
  for 0, %n, 1 (%k2: i32) {
    %e = tma_store %s[0, 0], %S, %D, slot = 0 {map = "D_map"}
    %te = join %e
    wait %te
  }
  store_mem %s, 0.0:bf16, %S, slot = 0 {space = "shared", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @loops(%C: tensor<Mx64xbf16>, %D: tensor<64x64xbf16>, %n: i32) dims(M = %M: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 64x64xbf16>, offset = 0, bytes = 8192} : shared<2 versions x 64x64xbf16>
  %s = buffer_address %S : i32
  %0 = no_token {counter = "bulk"} : token<bulk>
  %sum, %1, %2 = for 0, %n, 1, [0, %0, %0] : i32, token<bulk>, token<bulk> (%k: i32, %c: i32, %stored: token<bulk>, %stored_1: token<bulk>) {
    %d = add %k, %c : i32
    wait %stored {reads = true}
    store_mem %s, 0.0:bf16, %S, slot = 0 {space = "shared", address_of = (0,), offsets = (0,)}
    wait %stored_1
    wait %stored
    wait %stored_1 {reads = true}
    %a = tma_store %s, [0, %k], %S, %C, slot = 0 {map = "C_map"} : token<bulk>
    %ta = join %a : token<bulk>
    store_mem %s, 0.0:bf16, %S, slot = 1 {space = "shared", address_of = (0,), offsets = (0,)}
    %b = tma_store %s, [0, %k], %S, %C, slot = 1 {map = "C_map"} : token<bulk>
    %tb = join %b : token<bulk>
    yield %d, %ta, %tb
  }
  %3 = no_token {counter = "bulk"} : token<bulk>
  %4 = for 0, %n, 1, [%3] : token<bulk> (%k2: i32, %stored_2: token<bulk>) {
    wait %stored_2
    %e = tma_store %s, [0, 0], %S, %D, slot = 0 {map = "D_map"} : token<bulk>
    %te = join %e : token<bulk>
    yield %te
  }
  wait %4 {reads = true}
  wait %2 {reads = true}
  wait %1 {reads = true}
  store_mem %s, 0.0:bf16, %S, slot = 0 {space = "shared", address_of = (0,), offsets = (0,)}
  wait %4 {reads = true}
  wait %2 {reads = true}
  wait %1 {reads = true}
}
