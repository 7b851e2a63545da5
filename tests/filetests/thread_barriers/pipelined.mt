// pass: allocate_shared_memory, thread_barriers, resolve_wait_counts
// Three stages: one barrier in the loop, between the wait and the copies; one group may be in flight at the wait.
thread kernel @pipelined(%A: tensor<1024xf32>) dims(K = %K: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<3 versions x 1024xf32>}
  %s = buffer_address %S
  %g = global_address %A
  %n = floordiv %K, 64
  %c0 = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %t0 = join %c0
  %c1 = cp_async %s, %g, %S, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %t1 = join %c1
  %r, %x0, %x1 = for 0, %n, 1, [0.0, %t0, %t1] : f32, token, token (%k: i32, %c: f32, %u0: token, %u1: token) {
    wait %u0
    %k2 = add %k, 2
    %ahead = floormod %k2, 3
    %now = floormod %k, 3
    %p = cmp %k2, %n {predicate = "lt"}
    %c2 = if %p : token then {
      %copy = cp_async %s, %g, %S, dst_slot = %ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
      yield %copy
    } orelse {
      %no = no_token
      yield %no
    }
    %t2 = join %c2
    %w = load_mem %s, %S, slot = %now {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    %d = add %c, %w
    yield %d, %u1, %t2
  }
  %C = alloc {type_ = shared<1024xf32>}
  %e = buffer_address %C
  store_mem %e, %r, %C {space = "shared", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @pipelined(%A: tensor<1024xf32>) dims(K = %K: i32) attrs {threads = 128, shared_bytes = 12288} {
  %S = alloc {type_ = shared<3 versions x 1024xf32>, offset = 0, bytes = 4096} : shared<3 versions x 1024xf32>
  %s = buffer_address %S : i32
  %g = global_address %A : i64
  %n = floordiv %K, 64 : i32
  %c0 = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %t0 = join %c0 : token
  %c1 = cp_async %s, %g, %S, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %t1 = join %c1 : token
  %r, %x0, %x1 = for 0, %n, 1, [0.0, %t0, %t1] : f32, token, token (%k: i32, %c: f32, %u0: token, %u1: token) {
    wait %u0 {pending = 1}
    %k2 = add %k, 2 : i32
    %ahead = floormod %k2, 3 : i32
    %now = floormod %k, 3 : i32
    %p = cmp %k2, %n {predicate = "lt"} : bool
    barrier
    %c2 = if %p : token then {
      %copy = cp_async %s, %g, %S, dst_slot = %ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
      yield %copy
    } orelse {
      %no = no_token : token
      yield %no
    }
    %t2 = join %c2 : token
    %w = load_mem %s, %S, slot = %now {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %d = add %c, %w : f32
    yield %d, %u1, %t2
  }
  %C = alloc {type_ = shared<1024xf32>, offset = 0, bytes = 4096} : shared<1024xf32>
  %e = buffer_address %C : i32
  barrier
  store_mem %e, %r, %C {space = "shared", address_of = (0,), offsets = (0,)}
}
