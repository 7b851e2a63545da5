// Behind an early return, in a loop, in a branch of it, in a pipelined loop: all shared memory at the front. What a turn
// of %t has for itself says so in front of its uses; in the turns of %k, which overlap, nothing begins. Fragments and
// locals stay: they are values, or each thread's own.
// pass: hoist_storage
// target: sm_90a
traced kernel @k(%A: tensor<64x512xf16>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %none = cmp %n, 0 {predicate = "le"}
    if %none then {
      yield
    } orelse {
      %qs = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
      %f = alloc {type_ = fragment<64x64xf16>} : fragment<64x64xf16>
      copy %A[0, 0], %qs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      for 0, %n, 1 {kind = "serial"} (%t: i32) {
        %first = cmp %t, 0 {predicate = "eq"}
        if %first then {
          %one = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
          copy %A[0, 0], %one[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
          yield
        } orelse {
          yield
        }
        for 0, %n, 1 {kind = "pipelined", stages = 2} (%k: i32) {
          %ks = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
          copy %A[0, 0], %ks[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
          yield
        }
        yield
      }
      for 0, %n, 1 {kind = "pipelined", stages = 2} (%j: i32) {
        %js = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
        copy %A[0, 0], %js[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        yield
      }
      yield
    }
    yield
  }
}

// ----
traced kernel @k(%A: tensor<64x512xf16>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %qs = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
    %one = alloc {type_ = shared<64x64xf16>, lifetime = 1} : shared<64x64xf16>
    %ks = alloc {type_ = shared<64x64xf16>, lifetime = 2} : shared<64x64xf16>
    %js = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
    %none = cmp %n, 0 {predicate = "le"} : bool
    if %none then {
      yield
    } orelse {
      %f = alloc {type_ = fragment<64x64xf16>} : fragment<64x64xf16>
      copy %A[0, 0], %qs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      for 0, %n, 1 (%t: i32) {
        lifetime {number = 2}
        %first = cmp %t, 0 {predicate = "eq"} : bool
        if %first then {
          lifetime {number = 1}
          copy %A[0, 0], %one[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
          yield
        } orelse {
          yield
        }
        for 0, %n, 1 {kind = "pipelined", stages = 2} (%k: i32) {
          copy %A[0, 0], %ks[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
          yield
        }
        yield
      }
      for 0, %n, 1 {kind = "pipelined", stages = 2} (%j: i32) {
        copy %A[0, 0], %js[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        yield
      }
      yield
    }
    yield
  }
}
