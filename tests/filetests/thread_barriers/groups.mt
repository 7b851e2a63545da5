// pass: thread_barriers
// Each warpgroup has a part of %S to itself and meets alone for it; for %T, in the same bytes, all threads meet.
thread kernel @groups(%C: tensor<128x64xbf16>, %n: i32) attrs {threads = 256} {
  %S = alloc {type_ = shared<2 versions x 128x64xbf16>, offset = 0, bytes = 16384, shared_by = 128}
  %T = alloc {type_ = shared<128x64xbf16>, offset = 0, bytes = 16384}
  %s = buffer_address %S
  %t = buffer_address %T
  %x = pick 0.0:bf16 {indices = (0, 0)}
  stmatrix %s, %x, %S, slot = 0 {number = 1, address_of = (0,), offsets = (0,)}
  %a = tma_store %s[0, 0], %S, %C, slot = 0 {map = "C_map"}
  %ta = join %a
  stmatrix %s, %x, %S, slot = 1 {number = 1, address_of = (0,), offsets = (0,)}
  wait %ta {reads = true}
  stmatrix %s, %x, %S, slot = 0 {number = 1, address_of = (0,), offsets = (0,)}
  %b = tma_store %s[0, 0], %S, %C, slot = 1 {map = "C_map"}
  %tb = join %b
  wait %tb
  stmatrix %t, %x, %T {number = 1, address_of = (0,), offsets = (0,)}
  %c = tma_store %t[0, 0], %T, %C {map = "C_map"}
  %tc = join %c
  wait %tc {reads = true}
  for 0, %n, 1 (%k: i32) {
    stmatrix %s, %x, %S, slot = 0 {number = 1, address_of = (0,), offsets = (0,)}
    %d = tma_store %s[0, 0], %S, %C, slot = 0 {map = "C_map"}
    %td = join %d
    wait %td
    yield
  }
}

// ----
thread kernel @groups(%C: tensor<128x64xbf16>, %n: i32) attrs {threads = 256} {
  %S = alloc {type_ = shared<2 versions x 128x64xbf16>, offset = 0, bytes = 16384, shared_by = 128} : shared<2 versions x 128x64xbf16>
  %T = alloc {type_ = shared<128x64xbf16>, offset = 0, bytes = 16384} : shared<128x64xbf16>
  %s = buffer_address %S : i32
  %t = buffer_address %T : i32
  %x = pick 0.0:bf16 {indices = (0, 0)} : regs<2xbf16>
  stmatrix %s, %x, %S, slot = 0 {number = 1, address_of = (0,), offsets = (0,)}
  barrier {id = 2, threads = 128, each = true}
  %a = tma_store %s, [0, 0], %S, %C, slot = 0 {map = "C_map"} : token<bulk>
  %ta = join %a : token<bulk>
  stmatrix %s, %x, %S, slot = 1 {number = 1, address_of = (0,), offsets = (0,)}
  wait %ta {reads = true}
  barrier {id = 2, threads = 128, each = true}
  stmatrix %s, %x, %S, slot = 0 {number = 1, address_of = (0,), offsets = (0,)}
  %b = tma_store %s, [0, 0], %S, %C, slot = 1 {map = "C_map"} : token<bulk>
  %tb = join %b : token<bulk>
  wait %tb
  barrier
  stmatrix %t, %x, %T {number = 1, address_of = (0,), offsets = (0,)}
  barrier
  %c = tma_store %t, [0, 0], %T, %C {map = "C_map"} : token<bulk>
  %tc = join %c : token<bulk>
  wait %tc {reads = true}
  barrier
  for 0, %n, 1 (%k: i32) {
    barrier {id = 2, threads = 128, each = true}
    stmatrix %s, %x, %S, slot = 0 {number = 1, address_of = (0,), offsets = (0,)}
    barrier {id = 2, threads = 128, each = true}
    %d = tma_store %s, [0, 0], %S, %C, slot = 0 {map = "C_map"} : token<bulk>
    %td = join %d : token<bulk>
    wait %td
    yield
  }
}
