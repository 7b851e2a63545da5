// pass: join_accesses
// What keeps accesses apart: a write that may be to the same element, a barrier, another row, a gap, a stride, a mask of its own.
tile kernel @between(%A: tensor<8x64xf32>, %B: tensor<8x64xf32, strides (64, 2)>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %x0 = load %A[0, 0] {shape = (), dims = (none, none)}
    store %A[%n, %bx], %x0 {dims = (none, none)}
    %x1 = load %A[0, 1] {shape = (), dims = (none, none)}
    sync_threads
    %x2 = load %A[0, 2] {shape = (), dims = (none, none)}
    %x5 = load %A[1, 3] {shape = (), dims = (none, none)}
    %x6 = load %A[0, 4] {shape = (), dims = (none, none)}
    %y0 = load %B[0, 0] {shape = (), dims = (none, none)}
    %y1 = load %B[0, 1] {shape = (), dims = (none, none)}
    %p = cmp %n, 0 {predicate = "lt"}
    %z = load %A[0, 5], mask = %p {shape = (), dims = (none, none)}
    sync_threads
    store %A[2, 0], %x1 {dims = (none, none)}
    %w = load %A[%bx, 0] {shape = (), dims = (none, none)}
    store %A[2, 1], %w {dims = (none, none)}
    store %A[2, 2], %x2 {dims = (none, none)}
    store %A[2, 2], %x5 {dims = (none, none)}
    store %A[2, 3], %x6 {dims = (none, none)}
    store %A[3, 3], %y0 {dims = (none, none)}
    store %A[3, 4], %y1 {dims = (none, none)}
    store %A[%bx, 0], %z {dims = (none, none)}
  }
}

// ----
tile kernel @between(%A: tensor<8x64xf32>, %B: tensor<8x64xf32, strides (64, 2)>, %n: i32) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %x0 = load %A[0, 0] {shape = (), dims = (none, none)} : f32
    store %A[%n, %bx], %x0 {dims = (none, none)}
    %x1 = load %A[0, 1] {shape = (), dims = (none, none)} : f32
    sync_threads
    %x2 = load %A[0, 2] {shape = (), dims = (none, none)} : f32
    %x5 = load %A[1, 3] {shape = (), dims = (none, none)} : f32
    %x6 = load %A[0, 4] {shape = (), dims = (none, none)} : f32
    %y0 = load %B[0, 0] {shape = (), dims = (none, none)} : f32
    %y1 = load %B[0, 1] {shape = (), dims = (none, none)} : f32
    %p = cmp %n, 0 {predicate = "lt"} : bool
    %z = load %A[0, 5], mask = %p {shape = (), dims = (none, none)} : f32
    sync_threads
    store %A[2, 0], %x1 {dims = (none, none)}
    %w = load %A[%bx, 0] {shape = (), dims = (none, none)} : f32
    store_run %A[2, 1], [%w, %x2] {along = 1}
    store_run %A[2, 2], [%x5, %x6] {along = 1}
    store_run %A[3, 3], [%y0, %y1] {along = 1}
    store %A[%bx, 0], %z {dims = (none, none)}
  }
}
