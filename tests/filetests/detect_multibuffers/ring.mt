// %S is a ring, of which one slice at a time is used; %U is also read as a whole.
// pass: detect_multibuffers
tile kernel @k(%A: tensor<64x512xbf16>, %n: i32) attrs {threads = 128, explicit_sync = true} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<3x64x64xbf16>} : shared<3x64x64xbf16>
    %U = alloc {type_ = shared<3x64x64xbf16>} : shared<3x64x64xbf16>
    %full = barriers {counts = (128, 128, 128)} : shared<3xu64>
    for 0, %n, 1 (%k: i32) {
      %s = floormod %k, 3
      bulk_load %A[0, 0], %S[%s, 0, 0], %full, %s {shape = (64, 64), src_dims = (0, 1), dst_dims = (none, 0, 1)}
      copy %A[0, 0], %U[%s, 0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (none, 0, 1)}
      %x = load %S[%s, 0, 8] {shape = (64, 16), dims = (none, 0, 1)} : tile<64x16xbf16>
      store %A[0, 0], %x {dims = (0, 1)}
      yield
    }
    %y = load %U[0, 0, 0] {shape = (3, 64, 64), dims = (0, 1, 2)} : tile<3x64x64xbf16>
    yield
  }
}

// ----
tile kernel @k(%A: tensor<64x512xbf16>, %n: i32) attrs {threads = 128, explicit_sync = true} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<3 versions x 64x64xbf16>} : shared<3 versions x 64x64xbf16>
    %U = alloc {type_ = shared<3x64x64xbf16>} : shared<3x64x64xbf16>
    %full = barriers {counts = (128, 128, 128)} : shared<3xu64>
    for 0, %n, 1 (%k: i32) {
      %s = floormod %k, 3 : i32
      bulk_load %A[0, 0], %S[0, 0], %full, %s, dst_slot = %s {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %A[0, 0], %U[%s, 0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (none, 0, 1)}
      %x = load %S[0, 8], slot = %s {shape = (64, 16), dims = (0, 1)} : tile<64x16xbf16>
      store %A[0, 0], %x {dims = (0, 1)}
      yield
    }
    %y = load %U[0, 0, 0] {shape = (3, 64, 64), dims = (0, 1, 2)} : tile<3x64x64xbf16>
    yield
  }
}
