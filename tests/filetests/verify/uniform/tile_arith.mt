// Half of a tile's threads cannot compute the tile.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  %t = thread_index
  %c = cmp %t, 32 {predicate = "lt"}
  %i = iota {shape = (64,), dim = 0}
  if %c then {
    %j = add %i, 1  // expect-error: all threads must reach add together
  } orelse {
  }
}
