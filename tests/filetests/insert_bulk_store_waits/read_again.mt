// pass: insert_bulk_store_waits
// target: sm_90a
// %C is read behind its store, so that is waited for until it is done; %D is not, and its wait is for the shared memory.
thread kernel @read_again(%C: tensor<64x32xf32>, %D: tensor<64x32xf32>) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0), ("D_map", "D", (16, 32), 0))} {
  %S = alloc {type_ = shared<16x32xf32>}
  %s = buffer_address %S
  %c = global_address %C
  %first = tma_store %s, [0, 0], %S, %C {map = "C_map"}
  %second = tma_store %s, [0, 0], %S, %D {map = "D_map"}
  %x = load_mem %c, %C {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
  store_mem %s, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @read_again(%C: tensor<64x32xf32>, %D: tensor<64x32xf32>) attrs {threads = 128, tensor_maps = (("C_map", "C", (16, 32), 0), ("D_map", "D", (16, 32), 0))} {
  %S = alloc {type_ = shared<16x32xf32>} : shared<16x32xf32>
  %s = buffer_address %S : i32
  %c = global_address %C : i64
  %first = tma_store %s, [0, 0], %S, %C {map = "C_map"} : token<bulk>
  %0 = join %first : token<bulk>
  wait %0
  %second = tma_store %s, [0, 0], %S, %D {map = "D_map"} : token<bulk>
  %1 = join %second : token<bulk>
  wait %1 {reads = true}
  %x = load_mem %c, %C {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  store_mem %s, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
}
