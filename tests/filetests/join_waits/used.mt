// pass: join_waits
// A token that something else waits for as well, and one of a pipeline, stay what they are.
thread kernel @used(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<512xf32>}
  %T = alloc {type_ = shared<512xf32>}
  %s = buffer_address %S
  %t = buffer_address %T
  %g = global_address %A
  %a = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %ta = join %a
  wait %ta
  %b = cp_async %t, %g, %T, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %tb = join %b
  %e = for 0, %n, 1, [%tb] : token (%k: i32, %u: token) {
    wait %u
    yield %tb
  }
  wait %ta
}

// ----
thread kernel @used(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<512xf32>} : shared<512xf32>
  %T = alloc {type_ = shared<512xf32>} : shared<512xf32>
  %s = buffer_address %S : i32
  %t = buffer_address %T : i32
  %g = global_address %A : i64
  %a = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %ta = join %a : token
  wait %ta
  %b = cp_async %t, %g, %T, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %tb = join %b : token
  %e = for 0, %n, 1, [%tb] : token (%k: i32, %u: token) {
    wait %u
    yield %tb
  }
  wait %ta
}
