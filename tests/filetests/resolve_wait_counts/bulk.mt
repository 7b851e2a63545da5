// pass: resolve_wait_counts
// Copies out of shared memory: a wait for the reads leaves the writes to be waited for, and one for all covers both.
thread kernel @bulk(%C: tensor<64x64xbf16>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 64x64xbf16>}
  %s = buffer_address %S
  %a = tma_store %s[0, 0], %S, %C, slot = 0 {map = "C_map"}
  %ta = join %a
  %b = tma_store %s[0, 0], %S, %C, slot = 1 {map = "C_map"}
  %c = tma_reduce %s[0, 0], %S, %C, slot = 1 {map = "C_map", kind = "add"}
  %tb = join %b, %c
  wait %ta {reads = true}
  wait %ta {reads = true}
  wait %ta
  wait %ta {reads = true}
  wait %tb
  wait %tb {reads = true}
  %none = no_token {counter = "bulk"}
  %e = for 0, %n, 1, [%none] (%k: i32, %last: token<bulk>) {
    wait %last {reads = true}
    %d = tma_store %s[0, 0], %S, %C, slot = 0 {map = "C_map"}
    %td = join %d
    yield %td
  }
  wait %e {reads = true}
}

// ----
thread kernel @bulk(%C: tensor<64x64xbf16>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 64x64xbf16>} : shared<2 versions x 64x64xbf16>
  %s = buffer_address %S : i32
  %a = tma_store %s, [0, 0], %S, %C, slot = 0 {map = "C_map"} : token<bulk>
  %ta = join %a : token<bulk>
  %b = tma_store %s, [0, 0], %S, %C, slot = 1 {map = "C_map"} : token<bulk>
  %c = tma_reduce %s, [0, 0], %S, %C, slot = 1 {map = "C_map", kind = "add"} : token<bulk>
  %tb = join %b, %c : token<bulk>
  wait %ta {reads = true, pending = 1}
  wait %ta {pending = 1}
  wait %tb {pending = 0}
  %none = no_token {counter = "bulk"} : token<bulk>
  %e = for 0, %n, 1, [%none] : token<bulk> (%k: i32, %last: token<bulk>) {
    wait %last {reads = true, pending = 0}
    %d = tma_store %s, [0, 0], %S, %C, slot = 0 {map = "C_map"} : token<bulk>
    %td = join %d : token<bulk>
    yield %td
  }
  wait %e {reads = true, pending = 0}
}
