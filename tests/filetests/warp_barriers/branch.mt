// Some threads of a warp take a branch. The lane that arrives for all could run round the ring alone where the product
// is left out: they meet behind the branch. Behind the second loop nothing waits for such a lane.
// pass: warp_barriers
// target: sm_90a
// print: origins
thread kernel @k(%n: i32, %p: bool, %a: i64) attrs {threads = 128} {
  %t = special {register = "tid.x"}
  %lane = and %t, 31 : i32
  %first = cmp %lane, 0 {predicate = "eq"} : bool
  %ring = alloc {type_ = shared<4xu64>, layout = shared<4xb64; 4:64>, bytes = 32, offset = 0} : shared<4xu64>
  %full = buffer_address %ring
  %empty = add %full, 16 : i32
  %some = cmp %t, 17 {predicate = "lt"} : bool
  if %some then {
    trap loc("user.py":7:1)
    yield
  } orelse {
    yield
  } loc("user.py":6:1)
  for 0, %n, 1 (%k: i32) {
    mbarrier_wait %full, %ring, 0 loc("user.py":9:1)
    if %p then {
      %acc, %token = wgmma %a, %a, [] {dtypes = (f16, f16), into = f32, n = 8, k = 16, a_offsets = (0,), b_offsets = (0,)} : regs<4xf32>, token<wgmma>
      wait %token {pending = 0}
      yield
    } orelse {
      yield
    }
    mbarrier_arrive %empty, %ring, predicate = %first
    yield
  }
  for 0, %n, 1 (%j: i32) {
    if %some then {
      trap
      yield
    } orelse {
      yield
    }
    yield
  }
}

// ----
thread kernel @k(%n: i32, %p: bool, %a: i64) attrs {threads = 128} {
  %t = special {register = "tid.x"} : i32
  %lane = and %t, 31 : i32
  %first = cmp %lane, 0 {predicate = "eq"} : bool
  %ring = alloc {type_ = shared<4xu64>, layout = shared<4xb64; 4:64>, offset = 0, bytes = 32} : shared<4xu64>
  %full = buffer_address %ring : i32
  %empty = add %full, 16 : i32
  %some = cmp %t, 17 {predicate = "lt"} : bool
  if %some then {
    trap
    yield
  } orelse {
    yield
  }
  warp_barrier why("warp_barriers", "one lane arrives for its warp, whose threads the branch before has parted", ["user.py":6:1], ["user.py":9:1])
  for 0, %n, 1 (%k: i32) {
    mbarrier_wait %full, %ring, 0
    if %p then {
      %acc, %token = wgmma %a, %a {dtypes = (f16, f16), into = f32, n = 8, k = 16, a_offsets = (0,), b_offsets = (0,)} : regs<4xf32>, token<wgmma>
      wait %token {pending = 0}
      yield
    } orelse {
      yield
    }
    mbarrier_arrive %empty, %ring, predicate = %first
    yield
  }
  for 0, %n, 1 (%j: i32) {
    if %some then {
      trap
      yield
    } orelse {
      yield
    }
    yield
  }
}
