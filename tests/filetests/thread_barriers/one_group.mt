// pass: thread_barriers
// Where the groups of a buffer are all threads, the barrier that they need is one for all: none in front of the loop for %T,
// which lies in the same bytes.
thread kernel @one_group(%C: tensor<"M"x64xbf16>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<64x64xbf16>, offset = 0, bytes = 8192, shared_by = 128}
  %T = alloc {type_ = shared<64x64xbf16>, offset = 0, bytes = 8192}
  %s = buffer_address %S
  %t = buffer_address %T
  %x = load_mem %t, %T {space = "shared", dtype = bf16, count = 1, address_of = (0,), offsets = (0,)}
  %none = no_token {counter = "bulk"}
  %last = for 0, %n, 1, [%none] : token<bulk> (%k: i32, %before: token<bulk>) {
    wait %before {reads = true}
    store_mem %s, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
    %a = tma_store %s, [0, %k], %S, %C {map = "C_map"}
    %ta = join %a
    yield %ta
  }
}

// ----
thread kernel @one_group(%C: tensor<Mx64xbf16>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<64x64xbf16>, offset = 0, bytes = 8192, shared_by = 128} : shared<64x64xbf16>
  %T = alloc {type_ = shared<64x64xbf16>, offset = 0, bytes = 8192} : shared<64x64xbf16>
  %s = buffer_address %S : i32
  %t = buffer_address %T : i32
  %x = load_mem %t, %T {space = "shared", dtype = bf16, count = 1, address_of = (0,), offsets = (0,)} : bf16
  %none = no_token {counter = "bulk"} : token<bulk>
  %last = for 0, %n, 1, [%none] : token<bulk> (%k: i32, %before: token<bulk>) {
    wait %before {reads = true}
    barrier
    store_mem %s, %x, %S {space = "shared", address_of = (0,), offsets = (0,)}
    barrier
    %a = tma_store %s, [0, %k], %S, %C {map = "C_map"} : token<bulk>
    %ta = join %a : token<bulk>
    yield %ta
  }
}
