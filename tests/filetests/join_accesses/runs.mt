// pass: join_accesses
// Four loads, the first of them not the lowest, and their stores; the indices' arithmetic goes along. An element that is
// loaded twice is loaded once.
tile kernel @runs(%A: tensor<64xf16>, %C: tensor<8x64xf16>) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index
    %i = mul %t, 4
    %i1 = add %i, 1
    %x1 = load %A[%i1] {shape = (), dims = (none,)}
    store %C[%bx, %i1], %x1 {dims = (none, none)}
    %x0 = load %A[%i] {shape = (), dims = (none,)}
    %i3 = add %i1, 2
    %x3 = load %A[%i3] {shape = (), dims = (none,)}
    %x3_again = load %A[%i3] {shape = (), dims = (none,)}
    %y = add %x3, %x3_again
    %i2 = sub %i3, 1
    %x2 = load %A[%i2] {shape = (), dims = (none,)}
    store %C[%bx, %i3], %y {dims = (none, none)}
    store %C[%bx, %i2], %x2 {dims = (none, none)}
    store %C[%bx, %i], %x0 {dims = (none, none)}
  }
}

// ----
tile kernel @runs(%A: tensor<64xf16>, %C: tensor<8x64xf16>) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index : i32
    %i = mul %t, 4 : i32
    %x0, %x1, %x2, %x3 = load_run %A[%i] {count = 4, along = 0} : f16, f16, f16, f16
    %y = add %x3, %x3 : f16
    store_run %C[%bx, %i], [%x0, %x1, %x2, %y] {along = 1}
  }
}
