// pass: tile_vectorize
// A condition on the indices becomes the mask of what stands under it; a condition on %n stays an `if`.
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xf32>}
    parallel {extents = (64, 32)} (%i: i32, %j: i32) {
      %p = cmp %i, %j {predicate = "ge"}
      %x = if %p : f32 then {
        %next = add %j, 1
        %s = load %S[%i, %next] {shape = (), dims = (none, none)}
        yield %s
      } orelse {
        yield 0.0
      }
      %u = cmp %n, 3 {predicate = "gt"}
      if %u then {
        %q = cmp %j, %n {predicate = "lt"}
        if %q then {
          store %A[%i, %j], %x {dims = (none, none)}
        } orelse {
        }
      } orelse {
      }
    }
  }
}

// ----
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xf32>} : shared<64x64xf32>
    %j = iota {shape = (32,), dim = 0} : tile<32xi32>
    %i = iota {shape = (64, 32), dim = 0} : tile<64x32xi32>
    %j_1 = iota {shape = (64, 32), dim = 1} : tile<64x32xi32>
    %p = cmp %i, %j_1 {predicate = "ge"} : tile<64x32xbool>
    %s = load %S[0, 1], mask = %p {shape = (64, 32), dims = (0, 1)} : tile<64x32xf32>
    %x = select %p, %s, 0.0 : tile<64x32xf32>
    %u = cmp %n, 3 {predicate = "gt"} : bool
    if %u then {
      %q = cmp %j, %n {predicate = "lt"} : tile<32xbool>
      %q_1 = expand %q {dim = 0, size = 64} : tile<64x32xbool>
      store %A[0, 0], %x, mask = %q_1 {dims = (0, 1)}
      yield
    } orelse {
      yield
    }
  }
}
