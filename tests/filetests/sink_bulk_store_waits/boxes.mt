// pass: sink_bulk_store_waits
// A round stores other rows of %C than all before: it waits for the source alone, and who reads %C behind the loop for all.
// Of %D each round stores the same rows, of %E rows that reach into the next ones: these wait for the writes.
thread kernel @boxes(%C: tensor<"M"x64xbf16>, %D: tensor<"M"x64xbf16>, %E: tensor<"M"x64xbf16>, %n: i32, %step: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<64x64xbf16>, offset = 0, bytes = 8192}
  %s = buffer_address %S
  for 0, %n, %step (%k: i32) {
    %row = mul %k, 64
    store_mem %s, 0.0:bf16, %S {space = "shared", address_of = (0,), offsets = (0,)}
    %a = tma_store %s, [0, %row], %S, %C, [%row, 0] {map = "C_map", extent = (64, 64)}
    %ta = join %a
    wait %ta {reads = true}
    wait %ta
  }
  for 0, %n, 1 (%k: i32) {
    store_mem %s, 0.0:bf16, %S {space = "shared", address_of = (0,), offsets = (0,)}
    %a = tma_store %s, [0, %n], %S, %D, [%n, 0] {map = "D_map", extent = (64, 64)}
    %ta = join %a
    wait %ta {reads = true}
    wait %ta
  }
  for 0, %n, 1 (%k: i32) {
    %row = mul %k, 32
    store_mem %s, 0.0:bf16, %S {space = "shared", address_of = (0,), offsets = (0,)}
    %a = tma_store %s, [0, %row], %S, %E, [%row, 0] {map = "E_map", extent = (64, 64)}
    %ta = join %a
    wait %ta {reads = true}
    wait %ta
  }
  %c = global_address %C
  %x = load_mem %c, %C, [0, 0] {space = "global", dtype = bf16, count = 1, address_of = (0,), offsets = (0,), extent = (1, 1)}
  store_mem %s, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @boxes(%C: tensor<Mx64xbf16>, %D: tensor<Mx64xbf16>, %E: tensor<Mx64xbf16>, %n: i32, %step: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<64x64xbf16>, offset = 0, bytes = 8192} : shared<64x64xbf16>
  %s = buffer_address %S : i32
  %0 = no_token {counter = "bulk"} : token<bulk>
  %1 = for 0, %n, %step, [%0] : token<bulk> (%k: i32, %stored: token<bulk>) {
    %row = mul %k, 64 : i32
    wait %stored {reads = true}
    store_mem %s, 0.0:bf16, %S {space = "shared", address_of = (0,), offsets = (0,)}
    %a = tma_store %s, [0, %row], %S, %C, [%row, 0] {map = "C_map", extent = (64, 64)} : token<bulk>
    %ta = join %a : token<bulk>
    wait %stored {reads = true}
    yield %ta
  }
  wait %1 {reads = true}
  %2 = no_token {counter = "bulk"} : token<bulk>
  %3 = for 0, %n, 1, [%2] : token<bulk> (%k_1: i32, %stored_1: token<bulk>) {
    wait %stored_1 {reads = true}
    store_mem %s, 0.0:bf16, %S {space = "shared", address_of = (0,), offsets = (0,)}
    wait %stored_1
    %a_1 = tma_store %s, [0, %n], %S, %D, [%n, 0] {map = "D_map", extent = (64, 64)} : token<bulk>
    %ta_1 = join %a_1 : token<bulk>
    yield %ta_1
  }
  wait %3 {reads = true}
  %4 = no_token {counter = "bulk"} : token<bulk>
  %5 = for 0, %n, 1, [%4] : token<bulk> (%k_2: i32, %stored_2: token<bulk>) {
    %row_1 = mul %k_2, 32 : i32
    wait %stored_2 {reads = true}
    store_mem %s, 0.0:bf16, %S {space = "shared", address_of = (0,), offsets = (0,)}
    wait %stored_2
    %a_2 = tma_store %s, [0, %row_1], %S, %E, [%row_1, 0] {map = "E_map", extent = (64, 64)} : token<bulk>
    %ta_2 = join %a_2 : token<bulk>
    yield %ta_2
  }
  %c = global_address %C : i64
  wait %1
  %x = load_mem %c, %C, [0, 0] {space = "global", dtype = bf16, count = 1, address_of = (0,), offsets = (0,), extent = (1, 1)} : bf16
  wait %5 {reads = true}
  store_mem %s, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
  wait %5 {reads = true}
  wait %3 {reads = true}
}
