// pass: thread_barriers
// One thread of each warpgroup stores its 64 rows. Tiles of 128 rows are 128 apart: no thread comes to where another one
// has stored, in whatever order, until those 64 further down, and the first thread stores all. It goes on alone.
thread kernel @leaders(%C: tensor<"M"x32xf32>, %n: i32, %p: i32) attrs {threads = 256} {
  %S = alloc {type_ = shared<128x32xf32>, offset = 0, bytes = 16384}
  %s = buffer_address %S
  %t = special {register = "tid.x"}
  %rank = floormod %t, 128
  %leader = cmp %rank, 0 {predicate = "eq"}
  %first = cmp %t, 0 {predicate = "eq"}
  %warp = warp_index
  %group = floordiv %warp, 4
  %rows = mul %group, 64
  for 0, %n, 1 (%k: i32) {
    %q = mul %k, %p
    %at = mul %q, 128
    %mine = add %at, %rows
    %a = tma_store %s, [0, %mine], %S, %C, [%at, 0], predicate = %leader {map = "C_map", extent = (128, 32), box = (64, 32)}
    %ta = join %a
    wait %ta
  }
  %below = add 64, %rows
  %b = tma_store %s, [0, %below], %S, %C, [64, 0], predicate = %leader {map = "C_map", extent = (128, 32), box = (64, 32)}
  %tb = join %b
  wait %tb
  %c = tma_store %s, [0, 0], %S, %C, [0, 0], predicate = %first {map = "C_map2", extent = (128, 32)}
  %tc = join %c
  wait %tc
  %d = tma_store %s, [0, 64], %S, %C, [64, 0], predicate = %first {map = "C_map2", extent = (128, 32)}
  %td = join %d
  wait %td
}

// ----
thread kernel @leaders(%C: tensor<Mx32xf32>, %n: i32, %p: i32) attrs {threads = 256} {
  %S = alloc {type_ = shared<128x32xf32>, offset = 0, bytes = 16384} : shared<128x32xf32>
  %s = buffer_address %S : i32
  %t = special {register = "tid.x"} : i32
  %rank = floormod %t, 128 : i32
  %leader = cmp %rank, 0 {predicate = "eq"} : bool
  %first = cmp %t, 0 {predicate = "eq"} : bool
  %warp = warp_index : i32
  %group = floordiv %warp, 4 : i32
  %rows = mul %group, 64 : i32
  for 0, %n, 1 (%k: i32) {
    %q = mul %k, %p : i32
    %at = mul %q, 128 : i32
    %mine = add %at, %rows : i32
    %a = tma_store %s, [0, %mine], %S, %C, [%at, 0], predicate = %leader {map = "C_map", extent = (128, 32), box = (64, 32)} : token<bulk>
    %ta = join %a : token<bulk>
    wait %ta
  }
  %below = add 64, %rows : i32
  barrier
  %b = tma_store %s, [0, %below], %S, %C, [64, 0], predicate = %leader {map = "C_map", extent = (128, 32), box = (64, 32)} : token<bulk>
  %tb = join %b : token<bulk>
  wait %tb
  barrier
  %c = tma_store %s, [0, 0], %S, %C, [0, 0], predicate = %first {map = "C_map2", extent = (128, 32)} : token<bulk>
  %tc = join %c : token<bulk>
  wait %tc
  %d = tma_store %s, [0, 64], %S, %C, [64, 0], predicate = %first {map = "C_map2", extent = (128, 32)} : token<bulk>
  %td = join %d : token<bulk>
  wait %td
}
