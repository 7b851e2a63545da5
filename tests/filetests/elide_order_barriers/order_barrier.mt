// A team meets between its order barriers, without which it could take what another team is sent: they stay.
// pass: elide_order_barriers
// target: sm_90a
thread kernel @k(%n: i32) attrs {threads = 256, producer_threads = 128} {
  %w = warp_index
  %p = cmp %w, 4 {predicate = "lt"} : bool
  by_role %p {teams = ((2, 128), (3, 128)), independent = true} then {
    for 0, %n, 1 (%k: i32) {
      named_barrier 12 {threads = 256, needed = true}
      barrier {id = 2, threads = 128}
      named_barrier 13 {threads = 256, arrive = true, needed = true}
      yield
    }
    yield
  } orelse {
    yield
  }
}

// ----
thread kernel @k(%n: i32) attrs {threads = 256, producer_threads = 128} {
  %w = warp_index : i32
  %p = cmp %w, 4 {predicate = "lt"} : bool
  by_role %p {independent = true, teams = ((2, 128), (3, 128))} then {
    for 0, %n, 1 (%k: i32) {
      named_barrier 12 {threads = 256, needed = true}
      barrier {id = 2, threads = 128}
      named_barrier 13 {threads = 256, arrive = true, needed = true}
      yield
    }
    yield
  } orelse {
    yield
  }
}
