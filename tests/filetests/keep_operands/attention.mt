// %q comes from in front of the loop, %p is made and used up in a turn: %q is in use until the loop is done.
// pass: keep_operands
// target: sm_90a
// print: origins
thread kernel @k(%n: i32, %d: i64, %q: regs<8xf16>) attrs {threads = 128} {
  for 0, %n, 1 (%k: i32) {
    %s, %t = wgmma %q, %d, [] {dtypes = (f16, f16), into = f32, n = 16, k = 16, a_offsets = (0,), b_offsets = (0,)}
    %s1 = await %s, %t
    %p = cast %s1 {to = f16}
    %o, %u = wgmma %p, %d, [] {dtypes = (f16, f16), into = f32, n = 16, k = 16, a_offsets = (0,), b_offsets = (0,)}
    %o1 = await %o, %u
    yield
  } loc("user.py":6:1)
}

// ----
thread kernel @k(%n: i32, %d: i64, %q: regs<8xf16>) attrs {threads = 128} {
  for 0, %n, 1 (%k: i32) {
    %s, %t = wgmma %q, %d {dtypes = (f16, f16), into = f32, n = 16, k = 16, a_offsets = (0,), b_offsets = (0,)} : regs<8xf32>, token<wgmma>
    %s1 = await %s, %t : regs<8xf32>
    %p = cast %s1 {to = f16} : regs<8xf16>
    %o, %u = wgmma %p, %d {dtypes = (f16, f16), into = f32, n = 16, k = 16, a_offsets = (0,), b_offsets = (0,)} : regs<8xf32>, token<wgmma>
    %o1 = await %o, %u : regs<8xf32>
    yield
  }
  fake_use %q
}
