// pass: sink_bulk_store_waits
// What a branch has left over is handed out of it, and round the loop: the waits stand in front of the branch that writes the bytes again.
thread kernel @branches(%C: tensor<Mx64xbf16>, %D: tensor<64x64xbf16>, %n: i32) dims(M = %M: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<64x64xbf16>, offset = 0, bytes = 8192}
  %s = buffer_address %S
  for 0, %n, 1 (%k: i32) {
    %even = cmp %k, 2 {predicate = "lt"}
    %x = if %even then {
      store_mem %s, 0.0:bf16, %S {space = "shared", address_of = (0,), offsets = (0,)}
      %a = tma_store %s[0, %k], %S, %C {map = "C_map"}
      %ta = join %a
      wait %ta
      yield %k
    } orelse {
      %y = add %k, 1
      yield %y
    }
    %z = add %x, 1
  }
  %first = cmp %n, 0 {predicate = "lt"}
  if %first then {
    %e = tma_store %s[0, 0], %S, %D {map = "D_map"}
    %te = join %e
    wait %te
  } orelse {
  }
  store_mem %s, 0.0:bf16, %S {space = "shared", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @branches(%C: tensor<Mx64xbf16>, %D: tensor<64x64xbf16>, %n: i32) dims(M = %M: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<64x64xbf16>, offset = 0, bytes = 8192} : shared<64x64xbf16>
  %s = buffer_address %S : i32
  %0 = no_token {counter = "bulk"} : token<bulk>
  %1 = for 0, %n, 1, [%0] : token<bulk> (%k: i32, %stored: token<bulk>) {
    %even = cmp %k, 2 {predicate = "lt"} : bool
    wait %stored
    %x, %2 = if %even : i32, token<bulk> then {
      store_mem %s, 0.0:bf16, %S {space = "shared", address_of = (0,), offsets = (0,)}
      %a = tma_store %s, [0, %k], %S, %C {map = "C_map"} : token<bulk>
      %ta = join %a : token<bulk>
      yield %k, %ta
    } orelse {
      %y = add %k, 1 : i32
      %3 = no_token {counter = "bulk"} : token<bulk>
      yield %y, %3
    }
    %z = add %x, 1 : i32
    yield %2
  }
  %first = cmp %n, 0 {predicate = "lt"} : bool
  %4 = if %first : token<bulk> then {
    %e = tma_store %s, [0, 0], %S, %D {map = "D_map"} : token<bulk>
    %te = join %e : token<bulk>
    yield %te
  } orelse {
    %5 = no_token {counter = "bulk"} : token<bulk>
    yield %5
  }
  wait %4 {reads = true}
  wait %1 {reads = true}
  store_mem %s, 0.0:bf16, %S {space = "shared", address_of = (0,), offsets = (0,)}
  wait %4 {reads = true}
  wait %1 {reads = true}
}
