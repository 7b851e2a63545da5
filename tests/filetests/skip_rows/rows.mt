// A factor that is 1 elsewhere, and another change, which is selected; not what happens once, nor a mask of elements.
// pass: skip_rows
// target: sm_90a
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
      %sum = add %d, %factor : tile<64x64xf32>
      %e = select %wide, %sum, %d : tile<64x64xf32>
      %low = cmp %e, 0.0 {predicate = "lt"} : tile<64x64xbool>
      %g = select %low, %x, %e : tile<64x64xf32>
      yield %g
    }
    %big = cmp %f, 2.0 {predicate = "gt"} : tile<64xbool>
    %rows = expand %big {dim = 1, size = 64} : tile<64x64xbool>
    %y = select %rows, %x, %r : tile<64x64xf32>
    store %C[0, 0], %y {dims = (0, 1)}
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
      %0 = some_in_warp %some : bool
      %d = if %0 : tile<64x64xf32> then {
        %product = mul %c, %factor : tile<64x64xf32>
        yield %product
      } orelse {
        yield %c
      }
      %1 = some_in_warp %some : bool
      %e = if %1 : tile<64x64xf32> then {
        %sum = add %d, %factor : tile<64x64xf32>
        %2 = select %wide, %sum, %d : tile<64x64xf32>
        yield %2
      } orelse {
        yield %d
      }
      %low = cmp %e, 0.0 {predicate = "lt"} : tile<64x64xbool>
      %g = select %low, %x, %e : tile<64x64xf32>
      yield %g
    }
    %big = cmp %f, 2.0 {predicate = "gt"} : tile<64xbool>
    %rows = expand %big {dim = 1, size = 64} : tile<64x64xbool>
    %y = select %rows, %x, %r : tile<64x64xf32>
    store %C[0, 0], %y {dims = (0, 1)}
  }
}
