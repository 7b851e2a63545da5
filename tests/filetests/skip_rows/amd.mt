// Waits there are counts: the select stays.
// pass: skip_rows
// target: gfx942
tile kernel @rows(%A: tensor<64x64xf32>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %A[0, 0] {shape = (64, 64), dims = (0, 1)} : tile<64x64xf32>
    %f = reduce %x {dim = 1, kind = "max"} : tile<64xf32>
    %r = for 0, %n, 1, [%x] (%k: i32, %c: tile<64x64xf32>) {
      %some = cmp %f, 1.0 {predicate = "ne"} : tile<64xbool>
      %wide = expand %some {dim = 1, size = 64} : tile<64x64xbool>
      %factor = expand %f {dim = 1, size = 64} : tile<64x64xf32>
      %product = mul %c, %factor : tile<64x64xf32>
      %d = select %wide, %product, %c : tile<64x64xf32>
      yield %d
    }
    store %C[0, 0], %r {dims = (0, 1)}
  }
}

// ----
tile kernel @rows(%A: tensor<64x64xf32>, %C: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %A[0, 0] {shape = (64, 64), dims = (0, 1)} : tile<64x64xf32>
    %f = reduce %x {dim = 1, kind = "max"} : tile<64xf32>
    %r = for 0, %n, 1, [%x] : tile<64x64xf32> (%k: i32, %c: tile<64x64xf32>) {
      %some = cmp %f, 1.0 {predicate = "ne"} : tile<64xbool>
      %wide = expand %some {dim = 1, size = 64} : tile<64x64xbool>
      %factor = expand %f {dim = 1, size = 64} : tile<64x64xf32>
      %product = mul %c, %factor : tile<64x64xf32>
      %d = select %wide, %product, %c : tile<64x64xf32>
      yield %d
    }
    store %C[0, 0], %r {dims = (0, 1)}
  }
}
