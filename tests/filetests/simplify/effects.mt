// pass: simplify
// Loads go when unused, what writes stays; a chain of carried values stays when its end is read.
tile kernel @effects(%A: tensor<64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %unused = load %A[0] {shape = (), dims = (none,)}
    %old = atomic %A[1], 1.0 {dims = (none,)}
    %z = load %A[2] {shape = (), dims = (none,)}
    %a, %b, %c = for 0, %n, 1, [%z, %z, %z] : f32, f32, f32 (%k: i32, %p: f32, %q: f32, %r: f32) {
      %next = add %p, 1.0
      %dead = mul %r, 2.0
      yield %next, %p, %dead
    }
    store %A[3], %b {dims = (none,)}
    %cond = cmp %n, 3 {predicate = "lt"}
    %u, %v = if %cond : f32, f32 then {
      %x = add %z, 1.0
      %y = add %z, 2.0
      yield %x, %y
    } orelse {
      yield %z, %z
    }
    store %A[4], %v {dims = (none,)}
    %w1 = while [%n] : i32 before (%w: i32) {
      %go = cmp %w, 3 {predicate = "gt"}
      condition %go, [%w]
    } body (%w: i32) {
      %step = sub %w, 1
      yield %step
    }
  }
}

// ----
tile kernel @effects(%A: tensor<64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %old = atomic %A[1], 1.0 {dims = (none,)} : f32
    %z = load %A[2] {shape = (), dims = (none,)} : f32
    %a, %b = for 0, %n, 1, [%z, %z] : f32, f32 (%k: i32, %p: f32, %q: f32) {
      %next = add %p, 1.0 : f32
      yield %next, %p
    }
    store %A[3], %b {dims = (none,)}
    %cond = cmp %n, 3 {predicate = "lt"} : bool
    %v = if %cond : f32 then {
      %y = add %z, 2.0 : f32
      yield %y
    } orelse {
      yield %z
    }
    store %A[4], %v {dims = (none,)}
    %w1 = while %n : i32 before (%w: i32) {
      %go = cmp %w, 3 {predicate = "gt"} : bool
      condition %go, [%w]
    } body (%w_1: i32) {
      %step = add %w_1, -1 : i32
      yield %step
    }
  }
}
