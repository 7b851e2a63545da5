// pass: thread_barriers
// What a pipeline completes needs no barrier where threads are apart, either: one warp asks for tiles and reads the
// answers.
thread kernel @answers(%A: tensor<1024xi32>) attrs {threads = 128} {
  %tiles = alloc {type_ = shared<3 versions x 4xi32>}
  %at = buffer_address %tiles
  %ring = alloc {type_ = shared<6xu64>}
  %bar = buffer_address %ring
  %g = global_address %A
  %warp = warp_index
  %one = cmp %warp, 0 {predicate = "eq"}
  if %one then {
    %elected = elect
    %r = while [true, 0] : i32 before (%more: bool, %n: i32) {
      condition %more, [%n]
    } body (%m: i32) {
      mbarrier_expect %bar, %ring, predicate = %elected {bytes = 16}
      try_cancel %at, %bar, %tiles, 0, %ring, predicate = %elected
      mbarrier_wait %bar, %ring, 0
      %again, %next = query_cancel %at, %tiles, 0
      yield %again, %next
    }
  } orelse {
  }
}

// ----
thread kernel @answers(%A: tensor<1024xi32>) attrs {threads = 128} {
  %tiles = alloc {type_ = shared<3 versions x 4xi32>} : shared<3 versions x 4xi32>
  %at = buffer_address %tiles : i32
  %ring = alloc {type_ = shared<6xu64>} : shared<6xu64>
  %bar = buffer_address %ring : i32
  %g = global_address %A : i64
  %warp = warp_index : i32
  %one = cmp %warp, 0 {predicate = "eq"} : bool
  if %one then {
    %elected = elect : bool
    %r = while true, 0 : i32 before (%more: bool, %n: i32) {
      condition %more, [%n]
    } body (%m: i32) {
      mbarrier_expect %bar, %ring, predicate = %elected {bytes = 16}
      try_cancel %at, %bar, %tiles, 0, %ring, predicate = %elected
      mbarrier_wait %bar, %ring, 0
      %again, %next = query_cancel %at, %tiles, 0 : bool, i32
      yield %again, %next
    }
  } orelse {
  }
}
