// pass: thread_barriers
// Parts of tensors that do not meet need nothing between them: %A in a loop that goes up, %B in one that goes down, %C
// row by row and column by column, %D by halves. All others do.
thread kernel @boxes(%A: tensor<"M"x"N"xf32>, %B: tensor<"M"x"N"xf32>, %C: tensor<"M"x"N"xf32>, %D: tensor<"M"x"N"xf32>, %E: tensor<"M"x"N"xf32>, %F: tensor<"M"x"N"xf32>, %G: tensor<"M"x"N"xf32>, %n: i32) attrs {threads = 128} {
  %a = global_address %A
  %tid = special {register = "tid.x"}
  for 0, %n, 1 (%i: i32) {
    %up = mul %i, 32
    store_mem %a, 1.0, %A, [0, %up] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
    %left = sub 320, %up
    store_mem %a, 1.0, %B, [0, %left] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
    for 0, %n, 1 (%j: i32) {
      %column = mul %j, 32
      store_mem %a, 1.0, %C, [%i, %column] {space = "global", address_of = (0,), offsets = (0,), extent = (1, 32)}
    }
  }
  store_mem %a, 1.0, %D, [0, 0] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
  store_mem %a, 1.0, %D, [0, 32] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
  store_mem %a, 1.0, %D, [4, 0] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
  // One index is in both.
  store_mem %a, 1.0, %D, [7, 31] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
  for 0, %n, 1 (%i: i32) {
    // Each reaches into the next one.
    %half = mul %i, 16
    store_mem %a, 1.0, %E, [0, %half] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
  }
  for 0, %n, 1 (%i: i32) {
    // What the iteration before has written.
    %now = mul %i, 32
    %last = sub %now, 32
    %x = load_mem %a, %F, [0, %last] {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,), extent = (4, 32)}
    store_mem %a, %x, %F, [0, %now] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
  }
  for 0, %n, 1 (%i: i32) {
    // Each thread has a column of its own: which, in the next iteration, is that of another one.
    %mine = add %i, %tid
    store_mem %a, 1.0, %G, [0, %mine] {space = "global", address_of = (0,), offsets = (0,), extent = (1, 1)}
  }
}

// ----
thread kernel @boxes(%A: tensor<MxNxf32>, %B: tensor<MxNxf32>, %C: tensor<MxNxf32>, %D: tensor<MxNxf32>, %E: tensor<MxNxf32>, %F: tensor<MxNxf32>, %G: tensor<MxNxf32>, %n: i32) attrs {threads = 128} {
  %a = global_address %A : i64
  %tid = special {register = "tid.x"} : i32
  for 0, %n, 1 (%i: i32) {
    %up = mul %i, 32 : i32
    store_mem %a, 1.0, %A, [0, %up] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
    %left = sub 320, %up : i32
    store_mem %a, 1.0, %B, [0, %left] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
    for 0, %n, 1 (%j: i32) {
      %column = mul %j, 32 : i32
      store_mem %a, 1.0, %C, [%i, %column] {space = "global", address_of = (0,), offsets = (0,), extent = (1, 32)}
    }
  }
  store_mem %a, 1.0, %D, [0, 0] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
  store_mem %a, 1.0, %D, [0, 32] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
  store_mem %a, 1.0, %D, [4, 0] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
  barrier
  store_mem %a, 1.0, %D, [7, 31] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
  for 0, %n, 1 (%i_1: i32) {
    %half = mul %i_1, 16 : i32
    barrier
    store_mem %a, 1.0, %E, [0, %half] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
  }
  for 0, %n, 1 (%i_2: i32) {
    %now = mul %i_2, 32 : i32
    %last = sub %now, 32 : i32
    barrier
    %x = load_mem %a, %F, [0, %last] {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,), extent = (4, 32)} : f32
    store_mem %a, %x, %F, [0, %now] {space = "global", address_of = (0,), offsets = (0,), extent = (4, 32)}
  }
  for 0, %n, 1 (%i_3: i32) {
    %mine = add %i_3, %tid : i32
    barrier
    store_mem %a, 1.0, %G, [0, %mine] {space = "global", address_of = (0,), offsets = (0,), extent = (1, 1)}
  }
}
