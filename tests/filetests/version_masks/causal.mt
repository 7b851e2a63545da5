// Only the iterations at the diagonal compare and select; a mask outside of loops stays as it is.
// pass: version_masks
// target: sm_80
tile kernel @masked(%A: tensor<128x512xf32>, %C: tensor<128x128xf32>) attrs {threads = 128} {
  launch 4, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
    %i = iota {shape = (128,), dim = 0} : tile<128xi32>
    %row = mul %bx, 128 : i32
    %rows = add %row, %i : tile<128xi32>
    %wide = expand %rows {dim = 1, size = 128} : tile<128x128xi32>
    %r = for 0, 4, 1, [%z] (%k: i32, %c: tile<128x128xf32>) {
      %n = mul %k, 128 : i32
      %x = load %A[0, %n] {shape = (128, 128), dims = (0, 1)} : tile<128x128xf32>
      %columns = add %n, %i : tile<128xi32>
      %tall = expand %columns {dim = 0, size = 128} : tile<128x128xi32>
      %seen = cmp %tall, %wide {predicate = "le"} : tile<128x128xbool>
      %y = select %seen, %x, %z : tile<128x128xf32>
      %s = add %c, %y : tile<128x128xf32>
      yield %s
    }
    %low = cmp %wide, 100 {predicate = "lt"} : tile<128x128xbool>
    %t = select %low, %r, %z : tile<128x128xf32>
    store %C[0, 0], %t {dims = (0, 1)}
  }
}

// ----
tile kernel @masked(%A: tensor<128x512xf32>, %C: tensor<128x128xf32>) attrs {threads = 128} {
  launch 4, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
    %i = iota {shape = (128,), dim = 0} : tile<128xi32>
    %row = mul %bx, 128 : i32
    %rows = add %row, %i : tile<128xi32>
    %wide = expand %rows {dim = 1, size = 128} : tile<128x128xi32>
    %r = for 0, 4, 1, [%z] : tile<128x128xf32> (%k: i32, %c: tile<128x128xf32>) {
      %n = mul %k, 128 : i32
      %x = load %A[0, %n] {shape = (128, 128), dims = (0, 1)} : tile<128x128xf32>
      %0 = add %n, 127 : i32
      %1 = cmp %0, %row {predicate = "le"} : bool
      %y = if %1 : tile<128x128xf32> then {
        yield %x
      } orelse {
        %i_1 = iota {shape = (128,), dim = 0} : tile<128xi32>
        %columns = add %n, %i_1 : tile<128xi32>
        %tall = expand %columns {dim = 0, size = 128} : tile<128x128xi32>
        %rows_1 = add %row, %i_1 : tile<128xi32>
        %wide_1 = expand %rows_1 {dim = 1, size = 128} : tile<128x128xi32>
        %seen = cmp %tall, %wide_1 {predicate = "le"} : tile<128x128xbool>
        %y_1 = select %seen, %x, %z : tile<128x128xf32>
        yield %y_1
      }
      %s = add %c, %y : tile<128x128xf32>
      yield %s
    }
    %low = cmp %wide, 100 {predicate = "lt"} : tile<128x128xbool>
    %t = select %low, %r, %z : tile<128x128xf32>
    store %C[0, 0], %t {dims = (0, 1)}
  }
}
