// pass: thread_barriers
// Steps are positive, known or not: rows that lie apart from one round to the next do so for any step; others may meet.
thread kernel @steps(%A: tensor<"M"x"N"xf32>, %B: tensor<"M"x"N"xf32>, %n: i32, %step: i32) attrs {threads = 128} {
  %a = global_address %A
  for 0, %n, %step (%i: i32) {
    %up = mul %i, 32
    store_mem %a, 1.0, %A, [%up, 0] {space = "global", address_of = (0,), offsets = (0,), extent = (32, 4)}
    %half = mul %i, 16
    store_mem %a, 1.0, %B, [%half, 0] {space = "global", address_of = (0,), offsets = (0,), extent = (32, 4)}
  }
}

// ----
thread kernel @steps(%A: tensor<MxNxf32>, %B: tensor<MxNxf32>, %n: i32, %step: i32) attrs {threads = 128} {
  %a = global_address %A : i64
  for 0, %n, %step (%i: i32) {
    %up = mul %i, 32 : i32
    store_mem %a, 1.0, %A, [%up, 0] {space = "global", address_of = (0,), offsets = (0,), extent = (32, 4)}
    %half = mul %i, 16 : i32
    barrier
    store_mem %a, 1.0, %B, [%half, 0] {space = "global", address_of = (0,), offsets = (0,), extent = (32, 4)}
  }
}
