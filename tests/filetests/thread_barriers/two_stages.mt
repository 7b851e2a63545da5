// pass: thread_barriers, resolve_wait_counts
// Two stages: tile k+1 goes where tile k-1 was read. The copies may not start before all threads have read it, whichever
// side of the reads they stand on: in front of them the barrier behind the wait does for both.
thread kernel @two_stages(%A: tensor<1024xf32>) dims(K = %K: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 1024xf32>}
  %s = buffer_address %S
  %g = global_address %A
  %c0 = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %t0 = join %c0
  %r, %x0 = for 0, %K, 1, [0.0, %t0] : f32, token (%k: i32, %c: f32, %u0: token) {
    wait %u0
    %k1 = add %k, 1
    %ahead = floormod %k1, 2
    %now = floormod %k, 2
    %copy = cp_async %s, %g, %S, dst_slot = %ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
    %t1 = join %copy
    %w = load_mem %s, %S, slot = %now {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    %d = add %c, %w
    yield %d, %t1
  }
  store_mem %s, %r, %S, slot = 0 {space = "shared", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @two_stages(%A: tensor<1024xf32>) dims(K = %K: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 1024xf32>} : shared<2 versions x 1024xf32>
  %s = buffer_address %S : i32
  %g = global_address %A : i64
  %c0 = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %t0 = join %c0 : token
  %r, %x0 = for 0, %K, 1, [0.0, %t0] : f32, token (%k: i32, %c: f32, %u0: token) {
    wait %u0 {pending = 0}
    %k1 = add %k, 1 : i32
    %ahead = floormod %k1, 2 : i32
    %now = floormod %k, 2 : i32
    barrier
    %copy = cp_async %s, %g, %S, dst_slot = %ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
    %t1 = join %copy : token
    %w = load_mem %s, %S, slot = %now {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %d = add %c, %w : f32
    yield %d, %t1
  }
  barrier
  store_mem %s, %r, %S, slot = 0 {space = "shared", address_of = (0,), offsets = (0,)}
}
