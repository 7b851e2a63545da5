// Conditions that are the same for all threads: a parameter's, a block index', a value loaded from one place, a count.
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  launch %n, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index
    %v = load %A[%bx, 0] {shape = (), dims = (none, none)}
    %c = cmp %v, 0.0 {predicate = "lt"}
    if %c then {
      sync_threads
    } orelse {
    }
    %e, %f = for 0, %bx, 1, [%t, 0] (%k: i32, %varies: i32, %count: i32) {
      %d = cmp %count, 5 {predicate = "lt"}
      if %d then {
        sync_threads
      } orelse {
      }
      %more = add %count, 1
      yield %varies, %more
    }
  }
}
// ----
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  launch %n, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index : i32
    %v = load %A[%bx, 0] {shape = (), dims = (none, none)} : f32
    %c = cmp %v, 0.0 {predicate = "lt"} : bool
    if %c then {
      sync_threads
    } orelse {
    }
    %e, %f = for 0, %bx, 1, [%t, 0] : i32, i32 (%k: i32, %varies: i32, %count: i32) {
      %d = cmp %count, 5 {predicate = "lt"} : bool
      if %d then {
        sync_threads
      } orelse {
      }
      %more = add %count, 1 : i32
      yield %varies, %more
    }
  }
}
