// pass: mem2reg
// Each reduction has its number, which a loop carries; %S joins what it held.
traced kernel @k(%A: tensor<64x64xbf16>, %B: tensor<64xf32>) {
  launch 2, 1, 1 {threads = 128, cluster = (2, 1, 1)} (%bx: i32, %by: i32, %bz: i32) {
    %x = all_reduce_buffer {shape = (64,), dtype = f32, ranks = 2}
    %n = alloc {type_ = local<1xi32>}
    store %n[0], 0 {dims = (none,)}
    %F = alloc {type_ = fragment<64x64xbf16>}
    %S = alloc {type_ = fragment<64xf32>}
    fill %S[0], 0.0:f32 {shape = (64,), dims = (0,)}
    copy %A[0, 0], %F[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    for 0, 3, 1 (%k: i32) {
      %m = load %n[0] {shape = (), dims = (none,)}
      all_reduce_into %F, %S, %x, %m {dim = 1, kind = "sum", clear = false}
      %m1 = add %m, 1
      store %n[0], %m1 {dims = (none,)}
    }
    %m = load %n[0] {shape = (), dims = (none,)}
    all_reduce_into %S, %S, %x, %m {dim = -1, kind = "max"}
    copy %S[0], %B[0] {shape = (64,), src_dims = (0,), dst_dims = (0,)}
  }
}

// ----
tile kernel @k(%A: tensor<64x64xbf16>, %B: tensor<64xf32>) {
  launch 2, 1, 1 {threads = 128, cluster = (2, 1, 1)} (%bx: i32, %by: i32, %bz: i32) {
    %x = all_reduce_buffer {shape = (64,), dtype = f32, ranks = 2} : shared<2 versions x 64x2xf32>
    %S = splat 0.0 {shape = (64,)} : tile<64xf32>
    %F = load %A[0, 0] {shape = (64, 64), dims = (0, 1)} : tile<64x64xbf16>
    %n, %S_1 = for 0, 3, 1, [0, %S] : i32, tile<64xf32> (%k: i32, %n_1: i32, %S_2: tile<64xf32>) {
      %0 = cast %F {to = f32} : tile<64x64xf32>
      %1 = reduce %0 {dim = 1, kind = "sum"} : tile<64xf32>
      %2 = all_reduce %1, %x, %n_1 {kind = "sum"} : tile<64xf32>
      %S_3 = add %S_2, %2 : tile<64xf32>
      %m1 = add %n_1, 1 : i32
      yield %m1, %S_3
    }
    %S_4 = all_reduce %S_1, %x, %n {kind = "max"} : tile<64xf32>
    store %B[0], %S_4 {dims = (0,)}
  }
}
