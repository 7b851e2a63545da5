// A fragment of halves, seen as words: what is written to the words are two of its elements each, and the other way round.
// pass: mem2reg
traced kernel @k(%A: tensor<8x32xu32>, %B: tensor<8x64xbf16>, %C: tensor<256xu32>) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %f = alloc {type_ = fragment<8x64xbf16>} : fragment<8x64xbf16>
    %v = view %f {shape = (8, 32), dtype = u32} : fragment<8x32xu32>
    %w = view %f {shape = (256,), dtype = u32} : fragment<256xu32>
    copy %A[0, 0], %v[0, 0] {shape = (8, 32), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %f[0, 0], %B[0, 0] {shape = (8, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    copy %w[0], %C[0] {shape = (256,), src_dims = (0,), dst_dims = (0,)}
  }
}

// ----
tile kernel @k(%A: tensor<8x32xu32>, %B: tensor<8x64xbf16>, %C: tensor<256xu32>) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %0 = load %A[0, 0] {shape = (8, 32), dims = (0, 1)} : tile<8x32xu32>
    %f = recast %0 {to = bf16} : tile<8x64xbf16>
    store %B[0, 0], %f {dims = (0, 1)}
    %1 = reshape %f {shape = (512,)} : tile<512xbf16>
    %2 = recast %1 {to = u32} : tile<256xu32>
    store %C[0], %2 {dims = (0,)}
  }
}
