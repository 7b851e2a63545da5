// A tile of 8 elements a row is as quickly selected.
// pass: skip_rows
// target: sm_80
tile kernel @few(%A: tensor<64x8xf32>, %C: tensor<64x8xf32>, %n: i32) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %A[0, 0] {shape = (64, 8), dims = (0, 1)} : tile<64x8xf32>
    %f = reduce %x {dim = 1, kind = "max"} : tile<64xf32>
    %r = for 0, %n, 1, [%x] : tile<64x8xf32> (%k: i32, %c: tile<64x8xf32>) {
      %some = cmp %f, 1.0 {predicate = "ne"} : tile<64xbool>
      %wide = expand %some {dim = 1, size = 8} : tile<64x8xbool>
      %factor = expand %f {dim = 1, size = 8} : tile<64x8xf32>
      %product = mul %c, %factor : tile<64x8xf32>
      %d = select %wide, %product, %c : tile<64x8xf32>
      yield %d
    }
    store %C[0, 0], %r {dims = (0, 1)}
  }
}

// ----
tile kernel @few(%A: tensor<64x8xf32>, %C: tensor<64x8xf32>, %n: i32) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %A[0, 0] {shape = (64, 8), dims = (0, 1)} : tile<64x8xf32>
    %f = reduce %x {dim = 1, kind = "max"} : tile<64xf32>
    %r = for 0, %n, 1, [%x] : tile<64x8xf32> (%k: i32, %c: tile<64x8xf32>) {
      %some = cmp %f, 1.0 {predicate = "ne"} : tile<64xbool>
      %wide = expand %some {dim = 1, size = 8} : tile<64x8xbool>
      %factor = expand %f {dim = 1, size = 8} : tile<64x8xf32>
      %product = mul %c, %factor : tile<64x8xf32>
      %d = select %wide, %product, %c : tile<64x8xf32>
      yield %d
    }
    store %C[0, 0], %r {dims = (0, 1)}
  }
}
