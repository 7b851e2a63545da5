// pass: resolve_wait_counts
// The least count over the paths; a second wait for what is done goes away, and so does one for no token.
thread kernel @paths(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<4 versions x 1024xf32>}
  %s = buffer_address %S
  %g = global_address %A
  %p = cmp %n, 3 {predicate = "lt"}
  %a = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %ta = join %a
  %b = cp_async %s, %g, %S, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %tb = join %b
  if %p then {
    %c = cp_async %s, %g, %S, dst_slot = 2, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
    %tc = join %c
    %td = join
  } orelse {
  }
  wait %ta
  wait %ta
  if %p then {
    wait %tb
  } orelse {
  }
  wait %tb
  %no = no_token
  wait %no
  %e = cp_async %s, %g, %S, dst_slot = 3, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  wait %e
  wait %e
}

// ----
thread kernel @paths(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<4 versions x 1024xf32>} : shared<4 versions x 1024xf32>
  %s = buffer_address %S : i32
  %g = global_address %A : i64
  %p = cmp %n, 3 {predicate = "lt"} : bool
  %a = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %ta = join %a : token
  %b = cp_async %s, %g, %S, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %tb = join %b : token
  if %p then {
    %c = cp_async %s, %g, %S, dst_slot = 2, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
    %tc = join %c : token
    %td = join : token
  } orelse {
  }
  wait %ta {pending = 1}
  if %p then {
    wait %tb {pending = 0}
  } orelse {
  }
  wait %tb {pending = 0}
  %no = no_token : token
  %e = cp_async %s, %g, %S, dst_slot = 3, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %0 = join %e : token
  wait %e {pending = 0}
}
