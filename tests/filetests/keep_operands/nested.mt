// The loops of a persistent kernel: %q is made for each tile, so that it is kept behind the inner loop alone.
// pass: keep_operands
// target: sm_90a
thread kernel @k(%n: i32, %d: i64, %x: regs<8xf32>) attrs {threads = 128} {
  for 0, %n, 1 (%tile: i32) {
    %q = cast %x {to = f16}
    for 0, %n, 1 (%k: i32) {
      %s, %t = wgmma %q, %d, [] {dtypes = (f16, f16), into = f32, n = 16, k = 16, a_offsets = (0,), b_offsets = (0,)}
      %s1 = await %s, %t
      %p = cast %s1 {to = f16}
      %o, %u = wgmma %p, %d, [] {dtypes = (f16, f16), into = f32, n = 16, k = 16, a_offsets = (0,), b_offsets = (0,)}
      %o1 = await %o, %u
      yield
    }
    yield
  }
}

// ----
thread kernel @k(%n: i32, %d: i64, %x: regs<8xf32>) attrs {threads = 128} {
  for 0, %n, 1 (%tile: i32) {
    %q = cast %x {to = f16} : regs<8xf16>
    for 0, %n, 1 (%k: i32) {
      %s, %t = wgmma %q, %d {dtypes = (f16, f16), into = f32, n = 16, k = 16, a_offsets = (0,), b_offsets = (0,)} : regs<8xf32>, token<wgmma>
      %s1 = await %s, %t : regs<8xf32>
      %p = cast %s1 {to = f16} : regs<8xf16>
      %o, %u = wgmma %p, %d {dtypes = (f16, f16), into = f32, n = 16, k = 16, a_offsets = (0,), b_offsets = (0,)} : regs<8xf32>, token<wgmma>
      %o1 = await %o, %u : regs<8xf32>
      yield
    }
    fake_use %q
    yield
  }
}
