// pass: tile_vectorize
traced kernel @k(%n: i32) {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %C = alloc {type_ = fragment<64xf32>}
    parallel {extents = (64, 8)} (%i: i32, %j: i32) {
      %c = load %C[%i] {shape = (), dims = (none,)}
      %d = add %c, 1.0
      store %C[%i], %d {dims = (none,)} // expect-error: all elements along the T.Parallel index 'j' write the same place of 'C'
    }
  }
}
