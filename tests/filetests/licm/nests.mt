// pass: licm
tile kernel @nests(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    for 0, %n, 1 (%i: i32) {
      for 0, %n, 1 (%j: i32) {
        %a = mul %bx, 64
        %b = mul %i, %a
        %c = add %b, %j
        store %A[%c, %b], 0.0 {dims = (none, none)}
        %x = load %A[%a, %b] {shape = (), dims = (none, none)}
        store %A[%a, %j], %x {dims = (none, none)}
      }
    }
    %r = while [%n] : i32 before (%w: i32) {
      %limit = mul %bx, %by
      %go = cmp %w, %limit {predicate = "gt"}
      condition %go, [%w]
    } body (%w: i32) {
      %step = add %bx, 3
      %next = sub %w, %step
      yield %next
    }
    store %A[%r, 0], 1.0 {dims = (none, none)}
  }
}

// ----
tile kernel @nests(%A: tensor<64x64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = mul %bx, 64 : i32
    for 0, %n, 1 (%i: i32) {
      %b = mul %i, %a : i32
      for 0, %n, 1 (%j: i32) {
        %c = add %b, %j : i32
        store %A[%c, %b], 0.0 {dims = (none, none)}
        %x = load %A[%a, %b] {shape = (), dims = (none, none)} : f32
        store %A[%a, %j], %x {dims = (none, none)}
      }
    }
    %limit = mul %bx, %by : i32
    %step = add %bx, 3 : i32
    %r = while %n : i32 before (%w: i32) {
      %go = cmp %w, %limit {predicate = "gt"} : bool
      condition %go, [%w]
    } body (%w_1: i32) {
      %next = sub %w_1, %step : i32
      yield %next
    }
    store %A[%r, 0], 1.0 {dims = (none, none)}
  }
}
