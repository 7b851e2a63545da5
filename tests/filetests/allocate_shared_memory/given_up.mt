// pass: allocate_shared_memory
// target: sm_90a
// %S and %T do not fit beside each other: %T gets the bytes of %S, which has been received and read by then. The barrier words keep theirs.
thread kernel @given_up(%A: tensor<256x128xbf16>, %C: tensor<256x256xbf16>) attrs {threads = 128, producer_threads = 128} {
  %R = alloc {type_ = shared<2xu64>}
  %S = alloc {type_ = shared<4 versions x 128x128xbf16>}
  %T = alloc {type_ = shared<256x256xbf16>}
  %r = buffer_address %R
  %s = buffer_address %S
  %t = buffer_address %T
  %w = warp_index
  %p = cmp %w, 4 {predicate = "ge"}
  by_role %p {teams = ((0, none), (1, 128))} then {
    tma_load %s, %r, [0, 0], %S, 0, %R {map = "A_map"}
    yield
  } orelse {
    mbarrier_wait %r, %R, 0
    %x = load_mem %s, %S, slot = 0 {space = "shared", dtype = bf16, count = 1, address_of = (0,), offsets = (0,)}
    store_mem %t, %x, %T {space = "shared", address_of = (0,), offsets = (0,)}
    %a = tma_store %t[0, 0], %T, %C {map = "C_map"}
    %ta = join %a
    wait %ta
    yield
  }
}

// ----
thread kernel @given_up(%A: tensor<256x128xbf16>, %C: tensor<256x256xbf16>) attrs {threads = 128, producer_threads = 128, shared_bytes = 131088} {
  %R = alloc {type_ = shared<2xu64>, offset = 131072, bytes = 16} : shared<2xu64>
  %S = alloc {type_ = shared<4 versions x 128x128xbf16>, offset = 0, bytes = 32768} : shared<4 versions x 128x128xbf16>
  %T = alloc {type_ = shared<256x256xbf16>, offset = 0, bytes = 131072} : shared<256x256xbf16>
  %r = buffer_address %R : i32
  %s = buffer_address %S : i32
  %t = buffer_address %T : i32
  %w = warp_index : i32
  %p = cmp %w, 4 {predicate = "ge"} : bool
  by_role %p {teams = ((0, none), (1, 128))} then {
    tma_load %s, %r, [0, 0], %S, 0, %R {map = "A_map"}
    yield
  } orelse {
    mbarrier_wait %r, %R, 0
    %x = load_mem %s, %S, slot = 0 {space = "shared", dtype = bf16, count = 1, address_of = (0,), offsets = (0,)} : bf16
    store_mem %t, %x, %T {space = "shared", address_of = (0,), offsets = (0,)}
    %a = tma_store %t, [0, 0], %T, %C {map = "C_map"} : token<bulk>
    %ta = join %a : token<bulk>
    wait %ta
    yield
  }
}
