// pass: tile_vectorize
// Affine indices become regions; what depends on one index only is computed for that dimension alone.
traced kernel @scale(%A: tensor<Nx64xf32>, %V: tensor<Nxf32>, %C: tensor<64xNxf32>) dims(N = %N: i32) {
  launch 4, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %first = mul %bx, 128
    parallel {extents = (128, 64)} (%i: i32, %j: i32) {
      %row = add %first, %i
      %a = load %A[%row, %j] {shape = (), dims = (none, none)}
      %v = load %V[%row] {shape = (), dims = (none,)}
      %e = exp2 %v
      %y = mul %a, %e
      store %C[%j, %row], %y {dims = (none, none)}
    }
  }
}

// ----
traced kernel @scale(%A: tensor<Nx64xf32>, %V: tensor<Nxf32>, %C: tensor<64xNxf32>) dims(N = %N: i32) {
  launch 4, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %first = mul %bx, 128 : i32
    %a = load %A[%first, 0] {shape = (128, 64), dims = (0, 1)} : tile<128x64xf32>
    %v = load %V[%first] {shape = (128,), dims = (0,)} : tile<128xf32>
    %e = exp2 %v : tile<128xf32>
    %e_1 = expand %e {dim = 1, size = 64} : tile<128x64xf32>
    %y = mul %a, %e_1 : tile<128x64xf32>
    store %C[0, %first], %y {dims = (1, 0)}
  }
}
