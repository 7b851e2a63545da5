// pass: join_waits
// Copies to three buffers, in a row: one group and one wait, behind the last; a load of a tensor and an
// address may stand between.
thread kernel @together(%A: tensor<1024xf32>, %B: tensor<1024xf32>) attrs {threads = 128} {
  %S = alloc {type_ = shared<512xf32>}
  %T = alloc {type_ = shared<512xf32>}
  %U = alloc {type_ = shared<512xf32>}
  %s = buffer_address %S
  %t = buffer_address %T
  %u = buffer_address %U
  %g = global_address %A
  %a = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %ta = join %a
  wait %ta
  %h = global_address %B
  %b = cp_async %t, %h, %T, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %tb = join %b
  wait %tb
  %c = cp_async %u, %h, %U, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %d = cp_async %u, %g, %U, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %tc = join %c, %d
  wait %tc
  barrier
}

// ----
thread kernel @together(%A: tensor<1024xf32>, %B: tensor<1024xf32>) attrs {threads = 128} {
  %S = alloc {type_ = shared<512xf32>} : shared<512xf32>
  %T = alloc {type_ = shared<512xf32>} : shared<512xf32>
  %U = alloc {type_ = shared<512xf32>} : shared<512xf32>
  %s = buffer_address %S : i32
  %t = buffer_address %T : i32
  %u = buffer_address %U : i32
  %g = global_address %A : i64
  %a = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %h = global_address %B : i64
  %b = cp_async %t, %h, %T, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %c = cp_async %u, %h, %U, %B {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %d = cp_async %u, %g, %U, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %tc = join %a, %b, %c, %d : token
  wait %tc
  barrier
}
