// pass: insert_bulk_store_waits
// target: sm_90a
// A token that a branch hands on is waited for behind it: the store needs no wait of its own. The one that is left in the
// branch gets one there, for the reads of its source alone: nothing else touches %D.
thread kernel @branch(%C: tensor<64x32xf32>, %D: tensor<64x32xf32>, %n: i32) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0), ("D_map", "D", (16, 32), 0))} {
  %S = alloc {type_ = shared<16x32xf32>}
  %s = buffer_address %S
  %some = cmp %n, 4 {predicate = "gt"}
  %token = if %some : token<bulk> then {
    %put = tma_store %s, [0, 0], %S, %C {map = "C_map"}
    %group = join %put
    %left = tma_store %s, [0, 0], %S, %D {map = "D_map"}
    yield %group
  } orelse {
    %none = no_token {counter = "bulk"}
    yield %none
  }
  wait %token
}

// ----
thread kernel @branch(%C: tensor<64x32xf32>, %D: tensor<64x32xf32>, %n: i32) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0), ("D_map", "D", (16, 32), 0))} {
  %S = alloc {type_ = shared<16x32xf32>} : shared<16x32xf32>
  %s = buffer_address %S : i32
  %some = cmp %n, 4 {predicate = "gt"} : bool
  %token = if %some : token<bulk> then {
    %put = tma_store %s, [0, 0], %S, %C {map = "C_map"} : token<bulk>
    %group = join %put : token<bulk>
    %left = tma_store %s, [0, 0], %S, %D {map = "D_map"} : token<bulk>
    %0 = join %left : token<bulk>
    wait %0 {reads = true}
    yield %group
  } orelse {
    %none = no_token {counter = "bulk"} : token<bulk>
    yield %none
  }
  wait %token
}
