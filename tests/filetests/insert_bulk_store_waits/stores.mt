// pass: insert_bulk_store_waits, resolve_wait_counts
// target: sm_90a
// What is waited for stays as it is, through joins and loops; what is only committed gets its wait; a store to a tensor
// that is read elsewhere is waited for until it is done.
thread kernel @stores(%C: tensor<64x32xf32>, %D: tensor<64x32xf32>, %n: i32) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0), ("D_map", "D", (16, 32), 0))} {
  %S = alloc {type_ = shared<16x32xf32>}
  %s = buffer_address %S
  %none = no_token {counter = "bulk"}
  %last = for 0, %n, 1, [%none] : token<bulk> (%k: i32, %before: token<bulk>) {
    wait %before {reads = true}
    %row = mul %k, 16
    %put = tma_store %s, [0, %row], %S, %C {map = "C_map"}
    %group = join %put
    yield %group
  }
  wait %last
  for 0, %n, 1 (%i: i32) {
    %at = mul %i, 16
    %left = tma_store %s, [0, %at], %S, %C {map = "C_map"}
    %committed = join %left
  }
  %other = tma_store %s, [0, 0], %S, %D {map = "D_map"}
}

// ----
thread kernel @stores(%C: tensor<64x32xf32>, %D: tensor<64x32xf32>, %n: i32) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0), ("D_map", "D", (16, 32), 0))} {
  %S = alloc {type_ = shared<16x32xf32>} : shared<16x32xf32>
  %s = buffer_address %S : i32
  %none = no_token {counter = "bulk"} : token<bulk>
  %last = for 0, %n, 1, [%none] : token<bulk> (%k: i32, %before: token<bulk>) {
    wait %before {reads = true, pending = 0}
    %row = mul %k, 16 : i32
    %put = tma_store %s, [0, %row], %S, %C {map = "C_map"} : token<bulk>
    %group = join %put : token<bulk>
    yield %group
  }
  wait %last {pending = 0}
  for 0, %n, 1 (%i: i32) {
    %at = mul %i, 16 : i32
    %left = tma_store %s, [0, %at], %S, %C {map = "C_map"} : token<bulk>
    %committed = join %left : token<bulk>
    wait %committed {pending = 0}
  }
  %other = tma_store %s, [0, 0], %S, %D {map = "D_map"} : token<bulk>
  %0 = join %other : token<bulk>
  wait %0 {reads = true, pending = 0}
}
