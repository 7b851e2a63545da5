// pass: allocate_shared_memory
// target: sm_90a
// In a loop around both, the next round's loads are on their way while the result is stored: no bytes in common.
thread kernel @kept(%A: tensor<256x128xbf16>, %C: tensor<256x256xbf16>, %n: i32) attrs {threads = 128, producer_threads = 128} {
  %R = alloc {type_ = shared<2xu64>}
  %S = alloc {type_ = shared<4 versions x 128x128xbf16>}  // expect-error: needs 262160 bytes of shared memory at once
  %T = alloc {type_ = shared<256x256xbf16>}
  %r = buffer_address %R
  %s = buffer_address %S
  %t = buffer_address %T
  %w = warp_index
  %p = cmp %w, 4 {predicate = "ge"}
  by_role %p {teams = ((0, none), (1, 128))} then {
    for 0, %n, 1 (%i: i32) {
      tma_load %s, %r, [0, 0], %S, 0, %R {map = "A_map"}
    }
    yield
  } orelse {
    for 0, %n, 1 (%k: i32) {
      mbarrier_wait %r, %R, 0
      %x = load_mem %s, %S, slot = 0 {space = "shared", dtype = bf16, count = 1, address_of = (0,), offsets = (0,)}
      store_mem %t, %x, %T {space = "shared", address_of = (0,), offsets = (0,)}
    }
    yield
  }
}
