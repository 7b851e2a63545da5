// pass: thread_barriers
// A shared tile that the program reads and then writes in a pipelined loop: the write waits for the reads of the same
// iteration, the reads of the next one for the write. (A pipeline that tracks only its own copies misses the first.)
thread kernel @write_after_read(%A: tensor<1024xf32>) dims(K = %K: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 1024xf32>}
  %V = alloc {type_ = shared<1024xf32>}
  %s = buffer_address %S
  %v = buffer_address %V
  %g = global_address %A
  %c0 = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %t0 = join %c0
  %x0 = for 0, %K, 1, [%t0] : token (%k: i32, %u0: token) {
    wait %u0
    %k1 = add %k, 1
    %ahead = floormod %k1, 2
    %now = floormod %k, 2
    %copy = cp_async %s, %g, %S, dst_slot = %ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
    %t1 = join %copy
    %old = load_mem %v, %V {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    %w = load_mem %s, %S, slot = %now {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    %new = add %old, %w
    store_mem %v, %new, %V {space = "shared", address_of = (0,), offsets = (0,)}
    yield %t1
  }
}

// ----
thread kernel @write_after_read(%A: tensor<1024xf32>) dims(K = %K: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 1024xf32>} : shared<2 versions x 1024xf32>
  %V = alloc {type_ = shared<1024xf32>} : shared<1024xf32>
  %s = buffer_address %S : i32
  %v = buffer_address %V : i32
  %g = global_address %A : i64
  %c0 = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %t0 = join %c0 : token
  %x0 = for 0, %K, 1, [%t0] : token (%k: i32, %u0: token) {
    wait %u0
    %k1 = add %k, 1 : i32
    %ahead = floormod %k1, 2 : i32
    %now = floormod %k, 2 : i32
    barrier
    %copy = cp_async %s, %g, %S, dst_slot = %ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
    %t1 = join %copy : token
    %old = load_mem %v, %V {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %w = load_mem %s, %S, slot = %now {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %new = add %old, %w : f32
    barrier
    store_mem %v, %new, %V {space = "shared", address_of = (0,), offsets = (0,)}
    yield %t1
  }
}
