// A quotient by a positive constant is least and greatest where what it divides is; by a negative one the mask stays.
// pass: version_masks
// target: sm_80
tile kernel @masked(%A: tensor<128x512xf32>, %C: tensor<128x128xf32>) attrs {threads = 128} {
  launch 4, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
    %i = iota {shape = (128,), dim = 0} : tile<128xi32>
    %place = add %bx, %i : tile<128xi32>
    %rows = floordiv %place, 8 : tile<128xi32>
    %wide = expand %rows {dim = 1, size = 128} : tile<128x128xi32>
    %turned = floordiv %i, -8 : tile<128xi32>
    %back = expand %turned {dim = 1, size = 128} : tile<128x128xi32>
    %r = for 0, 4, 1, [%z] (%k: i32, %c: tile<128x128xf32>) {
      %n = mul %k, 128 : i32
      %x = load %A[0, %n] {shape = (128, 128), dims = (0, 1)} : tile<128x128xf32>
      %columns = add %n, %i : tile<128xi32>
      %tall = expand %columns {dim = 0, size = 128} : tile<128x128xi32>
      %seen = cmp %tall, %wide {predicate = "le"} : tile<128x128xbool>
      %y = select %seen, %x, %z : tile<128x128xf32>
      %other = cmp %tall, %back {predicate = "ge"} : tile<128x128xbool>
      %w = select %other, %y, %z : tile<128x128xf32>
      %s = add %c, %w : tile<128x128xf32>
      yield %s
    }
    store %C[0, 0], %r {dims = (0, 1)}
  }
}

// ----
tile kernel @masked(%A: tensor<128x512xf32>, %C: tensor<128x128xf32>) attrs {threads = 128} {
  launch 4, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
    %i = iota {shape = (128,), dim = 0} : tile<128xi32>
    %turned = floordiv %i, -8 : tile<128xi32>
    %back = expand %turned {dim = 1, size = 128} : tile<128x128xi32>
    %r = for 0, 4, 1, [%z] : tile<128x128xf32> (%k: i32, %c: tile<128x128xf32>) {
      %n = mul %k, 128 : i32
      %x = load %A[0, %n] {shape = (128, 128), dims = (0, 1)} : tile<128x128xf32>
      %columns = add %n, %i : tile<128xi32>
      %tall = expand %columns {dim = 0, size = 128} : tile<128x128xi32>
      %0 = add %n, 127 : i32
      %1 = floordiv %bx, 8 : i32
      %2 = cmp %0, %1 {predicate = "le"} : bool
      %y = if %2 : tile<128x128xf32> then {
        yield %x
      } orelse {
        %i_1 = iota {shape = (128,), dim = 0} : tile<128xi32>
        %columns_1 = add %n, %i_1 : tile<128xi32>
        %tall_1 = expand %columns_1 {dim = 0, size = 128} : tile<128x128xi32>
        %place = add %bx, %i_1 : tile<128xi32>
        %rows = floordiv %place, 8 : tile<128xi32>
        %wide = expand %rows {dim = 1, size = 128} : tile<128x128xi32>
        %seen = cmp %tall_1, %wide {predicate = "le"} : tile<128x128xbool>
        %y_1 = select %seen, %x, %z : tile<128x128xf32>
        yield %y_1
      }
      %other = cmp %tall, %back {predicate = "ge"} : tile<128x128xbool>
      %w = select %other, %y, %z : tile<128x128xf32>
      %s = add %c, %w : tile<128x128xf32>
      yield %s
    }
    store %C[0, 0], %r {dims = (0, 1)}
  }
}
