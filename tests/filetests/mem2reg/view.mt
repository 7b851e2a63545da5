// A fragment that is written under one shape and read under the other is one value; a view of shared memory is loaded and
// stored as a whole.
// pass: mem2reg
traced kernel @k(%A: tensor<8x64xf32>, %B: tensor<8x8x8xf32>) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %f = alloc {type_ = fragment<8x64xf32>} : fragment<8x64xf32>
    %v = view %f {shape = (8, 8, 8), dtype = f32} : fragment<8x8x8xf32>
    %s = alloc {type_ = shared<512xu32>} : shared<512xu32>
    %w = view %s {shape = (8, 64), dtype = f32} : shared<8x64xf32>
    copy %A[0, 0], %w[0, 0] {shape = (8, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %w[0, 0], %f[0, 0] {shape = (8, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %v[0, 0, 0], %B[0, 0, 0] {shape = (8, 8, 8), src_dims = (0, 1, 2), dst_dims = (0, 1, 2)}
  }
}

// ----
tile kernel @k(%A: tensor<8x64xf32>, %B: tensor<8x8x8xf32>) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<512xu32>} : shared<512xu32>
    %0 = load %A[0, 0] {shape = (8, 64), dims = (0, 1)} : tile<8x64xf32>
    %1 = reinterpret %0 {to = u32} : tile<8x64xu32>
    %2 = reshape %1 {shape = (512,)} : tile<512xu32>
    store %s[0], %2 {dims = (0,)}
    %3 = load %s[0] {shape = (512,), dims = (0,)} : tile<512xu32>
    %4 = reinterpret %3 {to = f32} : tile<512xf32>
    %f = reshape %4 {shape = (8, 64)} : tile<8x64xf32>
    %5 = reshape %f {shape = (8, 8, 8)} : tile<8x8x8xf32>
    store %B[0, 0, 0], %5 {dims = (0, 1, 2)}
  }
}
