// Nothing to keep: operands that are carried or made in the turn, or no other one beside %q.
// pass: keep_operands
// target: sm_90a
thread kernel @k(%n: i32, %d: i64, %q: regs<8xf16>) attrs {threads = 128} {
  %last = for 0, %n, 1, [%q] : regs<8xf16> (%k: i32, %p: regs<8xf16>) {
    %s, %t = wgmma %p, %d, [] {dtypes = (f16, f16), into = f32, n = 16, k = 16, a_offsets = (0,), b_offsets = (0,)}
    %s1 = await %s, %t
    %p1 = cast %s1 {to = f16}
    yield %p1
  }
  for 0, %n, 1 (%j: i32) {
    %s2, %t2 = wgmma %q, %d, [] {dtypes = (f16, f16), into = f32, n = 16, k = 16, a_offsets = (0,), b_offsets = (0,)}
    %s3 = await %s2, %t2
    yield
  }
}

// ----
thread kernel @k(%n: i32, %d: i64, %q: regs<8xf16>) attrs {threads = 128} {
  %last = for 0, %n, 1, [%q] : regs<8xf16> (%k: i32, %p: regs<8xf16>) {
    %s, %t = wgmma %p, %d {dtypes = (f16, f16), into = f32, n = 16, k = 16, a_offsets = (0,), b_offsets = (0,)} : regs<8xf32>, token<wgmma>
    %s1 = await %s, %t : regs<8xf32>
    %p1 = cast %s1 {to = f16} : regs<8xf16>
    yield %p1
  }
  for 0, %n, 1 (%j: i32) {
    %s2, %t2 = wgmma %q, %d {dtypes = (f16, f16), into = f32, n = 16, k = 16, a_offsets = (0,), b_offsets = (0,)} : regs<8xf32>, token<wgmma>
    %s3 = await %s2, %t2 : regs<8xf32>
    yield
  }
}
