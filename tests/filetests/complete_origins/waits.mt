// pass: complete_origins
// print: origins
// What waits for tokens stand between: in a loop, around it, and behind the last access.
thread kernel @waits(%A: tensor<1024xf32>, %C: tensor<64x64xbf16>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 1024xf32>}
  %T = alloc {type_ = shared<64x64xbf16>}
  %s = buffer_address %S
  %g = global_address %A
  %a = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} loc("k.py":3:1)
  %t0 = join %a
  %last = for 0, %n, 1, [%t0] (%k: i32, %u0: token) {
    wait %u0 {pending = 0} why("software_pipeline", "", [], [])
    barrier why("thread_barriers", "RAW S", ["k.py":3:1], ["k.py":5:1])
    %k1 = add %k, 1
    %ahead = floormod %k1, 2
    %d = cp_async %s, %g, %S, dst_slot = %ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} loc("k.py":4:1)
    %t1 = join %d
    %slot = floormod %k, 2
    %x = load_mem %s, %S, slot = %slot {dtype = f32, count = 1, space = "shared", address_of = (0,), offsets = (0,)} loc("k.py":5:1)
    store_mem %g, %x, %A {space = "global", address_of = (0,), offsets = (0,)} loc("k.py":6:1)
    yield %t1
  }
  wait %last {pending = 0} why("software_pipeline", "", [], [])
  for 0, %n, 1 (%k: i32) {
    store_mem %s, 0.0:bf16, %T {space = "shared", address_of = (0,), offsets = (0,)} loc("k.py":8:1)
    %b = tma_store %s[0, 0], %T, %C {map = "C_map"} loc("k.py":9:1)
    %tb = join %b
    wait %tb {reads = true, pending = 0} why("lower", "", [], [])
    wait %tb {pending = 0} why("lower", "", [], [])
  }
}

// ----
thread kernel @waits(%A: tensor<1024xf32>, %C: tensor<64x64xbf16>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 1024xf32>} : shared<2 versions x 1024xf32>
  %T = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
  %s = buffer_address %S : i32
  %g = global_address %A : i64
  %a = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %t0 = join %a : token
  %last = for 0, %n, 1, [%t0] : token (%k: i32, %u0: token) {
    wait %u0 {pending = 0} why("software_pipeline", "RAW S", ["k.py":3:1, "k.py":4:1], ["k.py":5:1])
    barrier why("thread_barriers", "RAW S", ["k.py":3:1], ["k.py":5:1])
    %k1 = add %k, 1 : i32
    %ahead = floormod %k1, 2 : i32
    %d = cp_async %s, %g, %S, dst_slot = %ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
    %t1 = join %d : token
    %slot = floormod %k, 2 : i32
    %x = load_mem %s, %S, slot = %slot {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    store_mem %g, %x, %A {space = "global", address_of = (0,), offsets = (0,)}
    yield %t1
  }
  wait %last {pending = 0} why("software_pipeline", "WAW S: complete before the memory is given back", ["k.py":3:1, "k.py":4:1], [])
  for 0, %n, 1 (%k_1: i32) {
    store_mem %s, 0.0:bf16, %T {space = "shared", address_of = (0,), offsets = (0,)}
    %b = tma_store %s, [0, 0], %T, %C {map = "C_map"} : token<bulk>
    %tb = join %b : token<bulk>
    wait %tb {reads = true, pending = 0} why("lower", "WAR T", ["k.py":9:1], ["k.py":8:1])
    wait %tb {pending = 0} why("lower", "WAW C", ["k.py":9:1], ["k.py":9:1])
  }
}
