// A branch inside the loop, between the arrival and the next round's wait; a loop of as many turns as each thread likes;
// a compare-and-swap loop; branches inside of branches; an arrival that stands in a branch for one lane. The threads meet
// behind the outermost one, where none is alone.
// pass: warp_barriers
// target: sm_90a
thread kernel @k(%X: tensor<64xi8>, %n: i32, %p: bool) attrs {threads = 128} {
  %t = special {register = "tid.x"}
  %lane = and %t, 31 : i32
  %first = cmp %lane, 0 {predicate = "eq"} : bool
  %ring = alloc {type_ = shared<4xu64>, layout = shared<4xb64; 4:64>, bytes = 32, offset = 0} : shared<4xu64>
  %full = buffer_address %ring
  %empty = add %full, 16 : i32
  %some = cmp %t, 17 {predicate = "lt"} : bool
  %x = global_address %X
  for 0, %n, 1 (%k: i32) {
    mbarrier_wait %full, %ring, 0
    mbarrier_arrive %empty, %ring, predicate = %first
    if %some then {
      for 0, %lane, 1 (%j: i32) {
        if %first then {
          trap
          yield
        } orelse {
          yield
        }
        yield
      }
      yield
    } orelse {
      yield
    }
    yield
  }
  warp_barrier
  for 0, %lane, 1 (%i: i32) {
    trap
    yield
  }
  %sum = while 0 : i32 before (%s: i32) {
    %go = cmp %s, %n {predicate = "lt"} : bool
    condition %go, [%s]
  } body (%b: i32) {
    mbarrier_wait %full, %ring, 0
    mbarrier_arrive %empty, %ring, predicate = %first
    %c = add %b, 1 : i32
    yield %c
  }
  warp_barrier
  atomic_mem %x, 1:i8, %X {space = "global", kind = "add", address_of = (0,), offsets = (0,), returns = false}
  mbarrier_wait %full, %ring, 0
  mbarrier_arrive %empty, %ring, predicate = %first
  warp_barrier
  for 0, %n, 1 (%r: i32) {
    mbarrier_wait %full, %ring, 0
    if %first then {
      mbarrier_arrive %empty, %ring
      yield
    } orelse {
      yield
    }
    yield
  }
}

// ----
thread kernel @k(%X: tensor<64xi8>, %n: i32, %p: bool) attrs {threads = 128} {
  %t = special {register = "tid.x"} : i32
  %lane = and %t, 31 : i32
  %first = cmp %lane, 0 {predicate = "eq"} : bool
  %ring = alloc {type_ = shared<4xu64>, layout = shared<4xb64; 4:64>, offset = 0, bytes = 32} : shared<4xu64>
  %full = buffer_address %ring : i32
  %empty = add %full, 16 : i32
  %some = cmp %t, 17 {predicate = "lt"} : bool
  %x = global_address %X : i64
  for 0, %n, 1 (%k: i32) {
    mbarrier_wait %full, %ring, 0
    mbarrier_arrive %empty, %ring, predicate = %first
    if %some then {
      for 0, %lane, 1 (%j: i32) {
        if %first then {
          trap
          yield
        } orelse {
          yield
        }
        yield
      }
      yield
    } orelse {
      yield
    }
    warp_barrier
    yield
  }
  warp_barrier
  for 0, %lane, 1 (%i: i32) {
    trap
    yield
  }
  warp_barrier
  %sum = while 0 : i32 before (%s: i32) {
    %go = cmp %s, %n {predicate = "lt"} : bool
    condition %go, [%s]
  } body (%b: i32) {
    mbarrier_wait %full, %ring, 0
    mbarrier_arrive %empty, %ring, predicate = %first
    %c = add %b, 1 : i32
    yield %c
  }
  warp_barrier
  atomic_mem %x, 1:i8, %X {space = "global", kind = "add", address_of = (0,), offsets = (0,), returns = false}
  warp_barrier
  mbarrier_wait %full, %ring, 0
  mbarrier_arrive %empty, %ring, predicate = %first
  warp_barrier
  for 0, %n, 1 (%r: i32) {
    mbarrier_wait %full, %ring, 0
    if %first then {
      mbarrier_arrive %empty, %ring
      yield
    } orelse {
      yield
    }
    warp_barrier
    yield
  }
}
