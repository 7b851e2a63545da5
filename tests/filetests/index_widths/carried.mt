// A number that a loop carries, made of constants: in 64 bits where a dimension is large. A loaded one keeps its type.
// pass: index_widths
traced kernel @bumped(%A: tensor<Nxf32>, %I: tensor<1xi32>) dims(N = %N: i32) attrs {large = ("N",)} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %i = load %I[0] {shape = (), dims = (none,)} : i32
    %at, %from = for 0, 5, 1, [0, %i] : i32, i32 (%k: i32, %at_1: i32, %from_1: i32) {
      store %A[%at_1], 7.0 {dims = (none,)}
      store %A[%from_1], 7.0 {dims = (none,)}
      %0 = add %at_1, 1000000000 : i32
      %1 = add %from_1, 1 : i32
      yield %0, %1
    }
    yield
  }
}

// ----
traced kernel @bumped(%A: tensor<Nxf32>, %I: tensor<1xi32>) dims(N = %N: i64) attrs {large = ("N",), wide = true} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %i = load %I[0] {shape = (), dims = (none,)} : i32
    %at, %from = for 0, 5, 1, [0:i64, %i] : i64, i32 (%k: i32, %at_1: i64, %from_1: i32) {
      store %A[%at_1], 7.0 {dims = (none,)}
      store %A[%from_1], 7.0 {dims = (none,)}
      %0 = add %at_1, 1000000000:i64 : i64
      %1 = add %from_1, 1 : i32
      yield %0, %1
    }
    yield
  }
}
