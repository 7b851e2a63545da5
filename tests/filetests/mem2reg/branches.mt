// pass: mem2reg
// %F is written in one branch and read after it; %G is written anew in each round, so that no round hands it on.
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %F = alloc {type_ = fragment<64xf32>}
    %G = alloc {type_ = fragment<64x64xf32>}
    for 0, %n, 1 (%k: i32) {
      copy %A[0, 0], %G[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      %first = cmp %k, 0 {predicate = "eq"}
      if %first then {
        reduce_into %G, %F {dim = 1, kind = "sum"}
      } orelse {
        reduce_into %G, %F {dim = 1, kind = "max", clear = false}
      }
      yield
    }
    copy %F[0], %A[0, 0] {shape = (64,), src_dims = (0,), dst_dims = (0, none)}
  }
}

// ----
tile kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %0 = splat 0.0 {shape = (64,)} : tile<64xf32>
    %F = for 0, %n, 1, [%0] : tile<64xf32> (%k: i32, %F_1: tile<64xf32>) {
      %G = load %A[0, 0] {shape = (64, 64), dims = (0, 1)} : tile<64x64xf32>
      %first = cmp %k, 0 {predicate = "eq"} : bool
      %F_2 = if %first : tile<64xf32> then {
        %F_3 = reduce %G {dim = 1, kind = "sum"} : tile<64xf32>
        yield %F_3
      } orelse {
        %1 = reduce %G {dim = 1, kind = "max"} : tile<64xf32>
        %F_4 = max %F_1, %1 : tile<64xf32>
        yield %F_4
      }
      yield %F_2
    }
    store %A[0, 0], %F {dims = (0, none)}
  }
}
