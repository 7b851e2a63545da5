// pass: complete_origins
// print: origins
// The token comes from a branch: what its wait stands behind is the copy of the side that makes one. The first access
// behind it reads another buffer and is passed over.
thread kernel @branch(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<1024xf32>}
  %T = alloc {type_ = shared<1024xf32>}
  %s = buffer_address %S
  %r = buffer_address %T
  %g = global_address %A
  %some = cmp %n, 4 {predicate = "gt"}
  %t = if %some : token then {
    %a = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} loc("k.py":3:1)
    %j = join %a
    yield %j
  } orelse {
    %none = no_token
    yield %none
  }
  wait %t {pending = 0} why("software_pipeline", "", [], [])
  %y = load_mem %r, %T {dtype = f32, count = 1, space = "shared", address_of = (0,), offsets = (0,)} loc("k.py":4:1)
  %x = load_mem %s, %S {dtype = f32, count = 1, space = "shared", address_of = (0,), offsets = (0,)} loc("k.py":5:1)
  %z = add %x, %y
  store_mem %r, %z, %T {space = "shared", address_of = (0,), offsets = (0,)} loc("k.py":6:1)
}

// ----
thread kernel @branch(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<1024xf32>} : shared<1024xf32>
  %T = alloc {type_ = shared<1024xf32>} : shared<1024xf32>
  %s = buffer_address %S : i32
  %r = buffer_address %T : i32
  %g = global_address %A : i64
  %some = cmp %n, 4 {predicate = "gt"} : bool
  %t = if %some : token then {
    %a = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
    %j = join %a : token
    yield %j
  } orelse {
    %none = no_token : token
    yield %none
  }
  wait %t {pending = 0} why("software_pipeline", "RAW S", ["k.py":3:1], ["k.py":5:1])
  %y = load_mem %r, %T {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  %z = add %x, %y : f32
  store_mem %r, %z, %T {space = "shared", address_of = (0,), offsets = (0,)}
}
