// A mask of two conditions holds everywhere where both do: the least row is not below 0, the greatest below %n. Backwards
// (-1 times the column) the greatest is at column 0.
// pass: version_masks
// target: sm_80
tile kernel @both_sides(%A: tensor<512xf32>, %C: tensor<32xf32>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %z = splat 0.0 {shape = (32,)} : tile<32xf32>
    %i = iota {shape = (32,), dim = 0} : tile<32xi32>
    %back = mul %i, -1 : tile<32xi32>
    %r = for 0, 4, 1, [%z] (%k: i32, %c: tile<32xf32>) {
      %x = load %A[%k] {shape = (32,), dims = (0,)} : tile<32xf32>
      %row = add %k, %i : tile<32xi32>
      %low = cmp %row, 0 {predicate = "ge"} : tile<32xbool>
      %high = cmp %row, %n {predicate = "lt"} : tile<32xbool>
      %in = and %low, %high : tile<32xbool>
      %y = select %in, %x, %z : tile<32xf32>
      %mirror = add %k, %back : tile<32xi32>
      %left = cmp %mirror, %n {predicate = "lt"} : tile<32xbool>
      %v = select %left, %y, %z : tile<32xf32>
      %s = add %c, %v : tile<32xf32>
      yield %s
    }
    store %C[0], %r {dims = (0,)}
  }
}

// ----
tile kernel @both_sides(%A: tensor<512xf32>, %C: tensor<32xf32>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %z = splat 0.0 {shape = (32,)} : tile<32xf32>
    %r = for 0, 4, 1, [%z] : tile<32xf32> (%k: i32, %c: tile<32xf32>) {
      %x = load %A[%k] {shape = (32,), dims = (0,)} : tile<32xf32>
      %0 = cmp %k, 0 {predicate = "ge"} : bool
      %1 = add %k, 31 : i32
      %2 = cmp %1, %n {predicate = "lt"} : bool
      %3 = and %0, %2 : bool
      %y = if %3 : tile<32xf32> then {
        yield %x
      } orelse {
        %i = iota {shape = (32,), dim = 0} : tile<32xi32>
        %row = add %k, %i : tile<32xi32>
        %low = cmp %row, 0 {predicate = "ge"} : tile<32xbool>
        %high = cmp %row, %n {predicate = "lt"} : tile<32xbool>
        %in = and %low, %high : tile<32xbool>
        %y_1 = select %in, %x, %z : tile<32xf32>
        yield %y_1
      }
      %4 = cmp %k, %n {predicate = "lt"} : bool
      %v = if %4 : tile<32xf32> then {
        yield %y
      } orelse {
        %i_1 = iota {shape = (32,), dim = 0} : tile<32xi32>
        %back = mul %i_1, -1 : tile<32xi32>
        %mirror = add %k, %back : tile<32xi32>
        %left = cmp %mirror, %n {predicate = "lt"} : tile<32xbool>
        %v_1 = select %left, %y, %z : tile<32xf32>
        yield %v_1
      }
      %s = add %c, %v : tile<32xf32>
      yield %s
    }
    store %C[0], %r {dims = (0,)}
  }
}
