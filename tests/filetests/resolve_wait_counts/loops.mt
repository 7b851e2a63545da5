// pass: resolve_wait_counts
// Four stages in a nest: three groups ahead, two may be in flight. After the loop the rest is awaited at once.
thread kernel @loops(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<4 versions x 1024xf32>}
  %s = buffer_address %S
  %g = global_address %A
  for 0, %n, 1 (%o: i32) {
    %a = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
    %t0 = join %a
    %b = cp_async %s, %g, %S, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
    %t1 = join %b
    %c = cp_async %s, %g, %S, dst_slot = 2, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
    %t2 = join %c
    %x0, %x1, %x2 = for 0, %n, 1, [%t0, %t1, %t2] : token, token, token (%k: i32, %u0: token, %u1: token, %u2: token) {
      wait %u0
      %k3 = add %k, 3
      %ahead = floormod %k3, 4
      %d = cp_async %s, %g, %S, dst_slot = %ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
      %t3 = join %d
      yield %u1, %u2, %t3
    }
    wait %x2
    wait %x0
  }
  // The token of the iteration before, by a while loop.
  %y = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %ty = join %y
  %left, %last = while [%n, %ty] : i32, token before (%w: i32, %u: token) {
    %go = cmp %w, 0 {predicate = "gt"}
    condition %go, [%w, %u]
  } body (%w: i32, %u: token) {
    %z = cp_async %s, %g, %S, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
    %tz = join %z
    wait %u
    %next = sub %w, 1
    yield %next, %tz
  }
  wait %last
}

// ----
thread kernel @loops(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<4 versions x 1024xf32>} : shared<4 versions x 1024xf32>
  %s = buffer_address %S : i32
  %g = global_address %A : i64
  for 0, %n, 1 (%o: i32) {
    %a = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
    %t0 = join %a : token
    %b = cp_async %s, %g, %S, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
    %t1 = join %b : token
    %c = cp_async %s, %g, %S, dst_slot = 2, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
    %t2 = join %c : token
    %x0, %x1, %x2 = for 0, %n, 1, [%t0, %t1, %t2] : token, token, token (%k: i32, %u0: token, %u1: token, %u2: token) {
      wait %u0 {pending = 2}
      %k3 = add %k, 3 : i32
      %ahead = floormod %k3, 4 : i32
      %d = cp_async %s, %g, %S, dst_slot = %ahead, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
      %t3 = join %d : token
      yield %u1, %u2, %t3
    }
    wait %x2 {pending = 0}
  }
  %y = cp_async %s, %g, %S, dst_slot = 0, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %ty = join %y : token
  %left, %last = while %n, %ty : i32, token before (%w: i32, %u: token) {
    %go = cmp %w, 0 {predicate = "gt"} : bool
    condition %go, [%w, %u]
  } body (%w_1: i32, %u_1: token) {
    %z = cp_async %s, %g, %S, dst_slot = 1, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
    %tz = join %z : token
    wait %u_1 {pending = 1}
    %next = sub %w_1, 1 : i32
    yield %next, %tz
  }
  wait %last {pending = 0}
}
