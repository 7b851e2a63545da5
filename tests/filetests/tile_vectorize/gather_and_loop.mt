// pass: tile_vectorize
// An index that is not base + i is a tile. The loop carries a tile, because what it adds up depends on %i.
traced kernel @k(%A: tensor<64x64xf32>, %P: tensor<64xi32>, %C: tensor<64xf32>) {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    parallel {extents = (64,)} (%i: i32) {
      %p = load %P[%i] {shape = (), dims = (none,)}
      %t = for 0, 8, 1, [0.0] : f32 (%k: i32, %c: f32) {
        %a = load %A[%p, %k] {shape = (), dims = (none, none)}
        %d = add %c, %a
        yield %d
      }
      store %C[%i], %t {dims = (none,)}
      %o = atomic %C[0], 1.0 {dims = (none,)}
    }
  }
}

// ----
traced kernel @k(%A: tensor<64x64xf32>, %P: tensor<64xi32>, %C: tensor<64xf32>) {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %p = load %P[0] {shape = (64,), dims = (0,)} : tile<64xi32>
    %0 = splat 0.0 {shape = (64,)} : tile<64xf32>
    %t = for 0, 8, 1, [%0] : tile<64xf32> (%k: i32, %c: tile<64xf32>) {
      %a = load %A[%p, %k] {shape = (64,), dims = (none, none)} : tile<64xf32>
      %d = add %c, %a : tile<64xf32>
      yield %d
    }
    store %C[0], %t {dims = (0,)}
    %1 = splat 0 {shape = (64,)} : tile<64xi32>
    %2 = splat 1.0 {shape = (64,)} : tile<64xf32>
    %3 = atomic %C[%1], %2 {dims = (none,)} : tile<64xf32>
  }
}
