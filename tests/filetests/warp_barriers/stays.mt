// Nothing to do: whole warps take the branches, or all meet in between, or all threads arrive.
// pass: warp_barriers
// target: sm_90a
thread kernel @k(%n: i32, %p: bool) attrs {threads = 128, producer_threads = 128} {
  %t = special {register = "tid.x"}
  %w = warp_index
  %lane = and %t, 31 : i32
  %first = cmp %lane, 0 {predicate = "eq"} : bool
  %ring = alloc {type_ = shared<4xu64>, layout = shared<4xb64; 4:64>, bytes = 32, offset = 0} : shared<4xu64>
  %full = buffer_address %ring
  %role = cmp %w, 4 {predicate = "ge"} : bool
  %half = cmp %t, 64 {predicate = "lt"} : bool
  %number = floordiv %t, 32 : i32
  %third = cmp %number, 2 {predicate = "eq"} : bool
  %either = or %half, %third : bool
  %some = cmp %t, 17 {predicate = "lt"} : bool
  by_role %role {teams = ((0, none), (1, 128))} then {
    if %either then {
      trap
      yield
    } orelse {
      yield
    }
    for 0, %number, 1 (%k: i32) {
      mbarrier_wait %full, %ring, 0
      mbarrier_expect %full, %ring, predicate = %first {bytes = 64}
      yield
    }
    yield
  } orelse {
    if %some then {
      trap
      yield
    } orelse {
      yield
    }
    barrier {id = 1, threads = 128}
    mbarrier_wait %full, %ring, 0
    mbarrier_arrive %full, %ring, predicate = %first
    if %some then {
      trap
      yield
    } orelse {
      yield
    }
    for 0, %n, 1 (%k: i32) {
      mbarrier_wait %full, %ring, 0
      mbarrier_arrive %full, %ring
      yield
    }
    yield
  }
}

// ----
thread kernel @k(%n: i32, %p: bool) attrs {threads = 128, producer_threads = 128} {
  %t = special {register = "tid.x"} : i32
  %w = warp_index : i32
  %lane = and %t, 31 : i32
  %first = cmp %lane, 0 {predicate = "eq"} : bool
  %ring = alloc {type_ = shared<4xu64>, layout = shared<4xb64; 4:64>, offset = 0, bytes = 32} : shared<4xu64>
  %full = buffer_address %ring : i32
  %role = cmp %w, 4 {predicate = "ge"} : bool
  %half = cmp %t, 64 {predicate = "lt"} : bool
  %number = floordiv %t, 32 : i32
  %third = cmp %number, 2 {predicate = "eq"} : bool
  %either = or %half, %third : bool
  %some = cmp %t, 17 {predicate = "lt"} : bool
  by_role %role {teams = ((0, none), (1, 128))} then {
    if %either then {
      trap
      yield
    } orelse {
      yield
    }
    for 0, %number, 1 (%k: i32) {
      mbarrier_wait %full, %ring, 0
      mbarrier_expect %full, %ring, predicate = %first {bytes = 64}
      yield
    }
    yield
  } orelse {
    if %some then {
      trap
      yield
    } orelse {
      yield
    }
    barrier {id = 1, threads = 128}
    mbarrier_wait %full, %ring, 0
    mbarrier_arrive %full, %ring, predicate = %first
    if %some then {
      trap
      yield
    } orelse {
      yield
    }
    for 0, %n, 1 (%k_1: i32) {
      mbarrier_wait %full, %ring, 0
      mbarrier_arrive %full, %ring
      yield
    }
    yield
  }
}
