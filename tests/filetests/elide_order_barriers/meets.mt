// The consumers meet in the middle of a turn: no warpgroup that waits for its turn could come to the barrier.
// pass: elide_order_barriers
// target: sm_90a
thread kernel @k(%n: i32) attrs {threads = 256, producer_threads = 128} {
  %w = warp_index
  %g = shr %w, 2 : i32
  %mine = add %g, 10 : i32
  %next = sub 11, %g : i32
  %p = cmp %w, 8 {predicate = "ge"} : bool
  by_role %p {teams = ((0, none), (1, 256))} then {
    yield
  } orelse {
    for 0, %n, 1 (%k: i32) {
      named_barrier %mine {threads = 256}
      barrier {id = 1, threads = 256}
      named_barrier %next {threads = 256, arrive = true}
      yield
    }
    yield
  }
}

// ----
thread kernel @k(%n: i32) attrs {threads = 256, producer_threads = 128} {
  %w = warp_index : i32
  %g = shr %w, 2 : i32
  %mine = add %g, 10 : i32
  %next = sub 11, %g : i32
  %p = cmp %w, 8 {predicate = "ge"} : bool
  by_role %p {teams = ((0, none), (1, 256))} then {
    yield
  } orelse {
    for 0, %n, 1 (%k: i32) {
      barrier {id = 1, threads = 256}
      yield
    }
    yield
  }
}
