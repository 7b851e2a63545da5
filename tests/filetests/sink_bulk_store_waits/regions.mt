// pass: sink_bulk_store_waits
// A branch hands its waits out. At the end the reads are enough where nothing behind touches the tensor: in a loop, its own next round does.
thread kernel @regions(%C: tensor<64x64xbf16>, %D: tensor<64x64xbf16>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 64x64xbf16>, offset = 0, bytes = 8192}
  %s = buffer_address %S
  for 0, %n, 1 (%k: i32) {
    %a = tma_store %s[0, %k], %S, %C, slot = 0 {map = "C_map"}
    %ta = join %a
    wait %ta
    %b = add %k, 1
    yield
  }
  %p = cmp %n, 3 {predicate = "lt"}
  %d = tma_store %s[0, 0], %S, %D, slot = 0 {map = "D_map"}
  %td = join %d
  wait %td
  if %p then {
    %e = tma_store %s[0, 0], %S, %C, slot = 1 {map = "C_map"}
    %te = join %e
    wait %te
  } orelse {
    store_mem %s, 0.0:bf16, %S, slot = 0 {space = "shared", address_of = (0,), offsets = (0,)}
  }
}

// ----
thread kernel @regions(%C: tensor<64x64xbf16>, %D: tensor<64x64xbf16>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<2 versions x 64x64xbf16>, offset = 0, bytes = 8192} : shared<2 versions x 64x64xbf16>
  %s = buffer_address %S : i32
  %0 = no_token {counter = "bulk"} : token<bulk>
  %1 = for 0, %n, 1, [%0] : token<bulk> (%k: i32, %stored: token<bulk>) {
    wait %stored
    %a = tma_store %s, [0, %k], %S, %C, slot = 0 {map = "C_map"} : token<bulk>
    %ta = join %a : token<bulk>
    %b = add %k, 1 : i32
    yield %ta
  }
  %p = cmp %n, 3 {predicate = "lt"} : bool
  %d = tma_store %s, [0, 0], %S, %D, slot = 0 {map = "D_map"} : token<bulk>
  %td = join %d : token<bulk>
  wait %1
  wait %td {reads = true}
  %2 = if %p : token<bulk> then {
    %e = tma_store %s, [0, 0], %S, %C, slot = 1 {map = "C_map"} : token<bulk>
    %te = join %e : token<bulk>
    yield %te
  } orelse {
    store_mem %s, 0.0:bf16, %S, slot = 0 {space = "shared", address_of = (0,), offsets = (0,)}
    %3 = no_token {counter = "bulk"} : token<bulk>
    yield %3
  }
  wait %2 {reads = true}
  wait %td {reads = true}
}
