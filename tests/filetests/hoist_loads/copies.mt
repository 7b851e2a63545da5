// What the kernel does not write (X) is loaded a turn ahead beside copies to shared memory, and in front of the wait for
// these; what it writes (Z), though behind the loop, is not.
// pass: hoist_loads
// target: sm_80
tile kernel @copies(%A: tensor<32x4096xf16>, %X: tensor<4096xf16>, %Z: tensor<4096xf16>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<32x128xf16>}
    %zero = splat 0.0:f16 {shape = (128,)}
    %sum = for 0, 32, 1, [%zero] : tile<128xf16> (%k: i32, %c: tile<128xf16>) {
      %at = mul %k, 128
      %t = async_copy %A[0, %at], %s[0, 0] {shape = (32, 128), src_dims = (0, 1), dst_dims = (0, 1)}
      wait %t
      %x = load %X[%at] {shape = (128,), dims = (0,)}
      %z = load %Z[%at] {shape = (128,), dims = (0,)}
      %a = load %s[0, 0] {shape = (128,), dims = (none, 0)}
      %y = mul %x, %a
      %e = add %y, %z
      %d = add %c, %e
      yield %d
    }
    store %Z[0], %sum {dims = (0,)}
  }
}

// ----
tile kernel @copies(%A: tensor<32x4096xf16>, %X: tensor<4096xf16>, %Z: tensor<4096xf16>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<32x128xf16>} : shared<32x128xf16>
    %zero = splat 0.0:f16 {shape = (128,)} : tile<128xf16>
    %0 = if true : tile<128xf16> then {
      %at = mul 0, 128 : i32
      %x = load %X[%at] {shape = (128,), dims = (0,)} : tile<128xf16>
      yield %x
    } orelse {
      %1 = splat 0.0:f16 {shape = (128,)} : tile<128xf16>
      yield %1
    }
    %sum, %2 = for 0, 32, 1, [%zero, %0] : tile<128xf16>, tile<128xf16> (%k: i32, %c: tile<128xf16>, %x_1: tile<128xf16>) {
      %3 = add %k, 1 : i32
      %4 = cmp %3, 32 {predicate = "lt"} : bool
      %5 = if %4 : tile<128xf16> then {
        %at_1 = mul %3, 128 : i32
        %x_2 = load %X[%at_1] {shape = (128,), dims = (0,)} : tile<128xf16>
        yield %x_2
      } orelse {
        %6 = splat 0.0:f16 {shape = (128,)} : tile<128xf16>
        yield %6
      }
      %at_2 = mul %k, 128 : i32
      %t = async_copy %A[0, %at_2], %s[0, 0] {shape = (32, 128), src_dims = (0, 1), dst_dims = (0, 1)} : token
      wait %t
      %z = load %Z[%at_2] {shape = (128,), dims = (0,)} : tile<128xf16>
      %a = load %s[0, 0] {shape = (128,), dims = (none, 0)} : tile<128xf16>
      %y = mul %x_1, %a : tile<128xf16>
      %e = add %y, %z : tile<128xf16>
      %d = add %c, %e : tile<128xf16>
      yield %d, %5
    }
    store %Z[0], %sum {dims = (0,)}
  }
}
