// pass: complete_origins
// print: origins
// A wait that says already what it stands between keeps it, and a wait that no pass inserted has nothing to complete.
thread kernel @said_already(%A: tensor<1024xf32>) attrs {threads = 128} {
  %S = alloc {type_ = shared<1024xf32>}
  %s = buffer_address %S
  %g = global_address %A
  %a = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} loc("k.py":3:1)
  %t = join %a
  wait %t {pending = 0} why("software_pipeline", "RAW S", ["k.py":7:1], ["k.py":8:1])
  wait %t {pending = 0}
  %x = load_mem %s, %S {dtype = f32, count = 1, space = "shared", address_of = (0,), offsets = (0,)} loc("k.py":5:1)
  store_mem %g, %x, %A {space = "global", address_of = (0,), offsets = (0,)} loc("k.py":6:1)
}

// ----
thread kernel @said_already(%A: tensor<1024xf32>) attrs {threads = 128} {
  %S = alloc {type_ = shared<1024xf32>} : shared<1024xf32>
  %s = buffer_address %S : i32
  %g = global_address %A : i64
  %a = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %t = join %a : token
  wait %t {pending = 0} why("software_pipeline", "RAW S", ["k.py":7:1], ["k.py":8:1])
  wait %t {pending = 0}
  %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  store_mem %g, %x, %A {space = "global", address_of = (0,), offsets = (0,)}
}
