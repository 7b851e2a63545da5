// pass: thread_barriers, proxy_fence, resolve_wait_counts
// target: sm_90a
// The epilogue's buffer lies over the operands': no fence where stores follow wgmma's reads, one between the stores
// and the copy, one between the loads and the next tile's copy.
thread kernel @aliased(%A: tensor<64x16xbf16>, %C: tensor<64x32xbf16>, %O: tensor<512xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (64, 16), 32), ("C_map", "C", (32, 32), 0),), shared_bytes = 2056} {
  %S = alloc {type_ = shared<64x16xbf16>, offset = 0, bytes = 2048}
  %s = buffer_address %S
  %tid = special {register = "tid.x"}
  %lead = cmp %tid, 0 {predicate = "eq"}
  %byte = mul %tid, 16
  %at = add %s, %byte
  %v = pick 1.0:bf16 {indices = (0 * 8,)}
  %low = and %s, 262143
  %bits = shr %low, 4
  %wide = cast %bits {to = i64}
  %d = or %wide, -4611685949707845632:i64
  %T = alloc {type_ = shared<32x32xbf16>, offset = 0, bytes = 2048}
  %to = buffer_address %T
  %mine = add %to, %byte
  %ring = alloc {type_ = shared<1xu64>, offset = 2048, bytes = 8}
  %bar = buffer_address %ring
  if %lead then {
    mbarrier_init %bar, %ring {count = 1}
    mbarrier_init_fence
  } orelse {
  }
  barrier
  for 0, 2, 1 (%k: i32) {
    mbarrier_expect %bar, %ring, predicate = %lead {bytes = 2048}
    tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %lead {map = "A_map"}
    mbarrier_wait %bar, %ring, %k
    %c1, %m1 = wgmma %d, %d, [%S] {dtypes = (bf16, bf16), into = f32, n = 8, k = 16, a_offsets = (0,), b_offsets = (0,)}
    %r1 = await %c1, %m1
    store_mem %mine, %v, %T {space = "shared", width = 8, address_of = (0,), offsets = (0,)}
    %row = mul %k, 32
    %put2 = tma_store %to, [0, %row], %T, %C, predicate = %lead {map = "C_map"}
    %group2 = join %put2
    wait %group2 {reads = true}
    %other = xor %mine, 16
    %old = load_mem %other, %T {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)}
    %first = pick %old {indices = (0,)}
    %f = cast %first {to = f32}
    %g = global_address %O
    %gb = cast %byte {to = i64}
    %ga = add %g, %gb
    store_mem %ga, %f, %O {space = "global", address_of = (0,), offsets = (0,)}
  }
}

// ----
thread kernel @aliased(%A: tensor<64x16xbf16>, %C: tensor<64x32xbf16>, %O: tensor<512xf32>) attrs {threads = 128, tensor_maps = (("A_map", "A", (64, 16), 32), ("C_map", "C", (32, 32), 0)), shared_bytes = 2056} {
  %S = alloc {type_ = shared<64x16xbf16>, offset = 0, bytes = 2048} : shared<64x16xbf16>
  %s = buffer_address %S : i32
  %tid = special {register = "tid.x"} : i32
  %lead = cmp %tid, 0 {predicate = "eq"} : bool
  %byte = mul %tid, 16 : i32
  %at = add %s, %byte : i32
  %v = pick 1.0:bf16 {indices = (0 * 8,)} : regs<8xbf16>
  %low = and %s, 262143 : i32
  %bits = shr %low, 4 : i32
  %wide = cast %bits {to = i64} : i64
  %d = or %wide, -4611685949707845632:i64 : i64
  %T = alloc {type_ = shared<32x32xbf16>, offset = 0, bytes = 2048} : shared<32x32xbf16>
  %to = buffer_address %T : i32
  %mine = add %to, %byte : i32
  %ring = alloc {type_ = shared<1xu64>, offset = 2048, bytes = 8} : shared<1xu64>
  %bar = buffer_address %ring : i32
  if %lead then {
    mbarrier_init %bar, %ring {count = 1}
    mbarrier_init_fence
  } orelse {
  }
  barrier
  for 0, 2, 1 (%k: i32) {
    mbarrier_expect %bar, %ring, predicate = %lead {bytes = 2048}
    proxy_fence
    barrier
    tma_load %s, %bar, [0, 0], %S, 0, %ring, tensor = %A, predicate = %lead {map = "A_map"}
    mbarrier_wait %bar, %ring, %k
    %c1, %m1 = wgmma %d, %d, [%S] {dtypes = (bf16, bf16), into = f32, n = 8, k = 16, a_offsets = (0,), b_offsets = (0,)} : regs<4xf32>, token<wgmma>
    %r1 = await %c1, %m1 {pending = 0} : regs<4xf32>
    store_mem %mine, %v, %T {space = "shared", width = 8, address_of = (0,), offsets = (0,)}
    %row = mul %k, 32 : i32
    proxy_fence
    barrier
    %put2 = tma_store %to, [0, %row], %T, %C, predicate = %lead {map = "C_map"} : token<bulk>
    %group2 = join %put2 : token<bulk>
    wait %group2 {reads = true, pending = 0}
    %other = xor %mine, 16 : i32
    %old = load_mem %other, %T {space = "shared", dtype = bf16, count = 8, width = 8, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %first = pick %old {indices = (0,)} : bf16
    %f = cast %first {to = f32} : f32
    %g = global_address %O : i64
    %gb = cast %byte {to = i64} : i64
    %ga = add %g, %gb : i64
    store_mem %ga, %f, %O {space = "global", address_of = (0,), offsets = (0,)}
  }
}
