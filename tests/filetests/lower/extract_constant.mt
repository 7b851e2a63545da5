// An element at constant indices: its owner's register goes to all threads by one word of shared memory.
// pass: infer_layouts, lower, simplify, cse
// target: sm_80
tile kernel @k(%A: tensor<256xf32>, %B: tensor<1xf32>) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0] {shape = (256,), dims = (0,)} : tile<256xf32>
    %x = extract %a, [255] : f32
    store %B[0], %x {dims = (none,)}
  }
}

// ----
thread kernel @k(%A: tensor<256xf32>, %B: tensor<1xf32>) attrs {threads = 64} {
  %tid = special {register = "tid.x"} : i32
  %0 = mul %tid, 4 : i32
  %1 = global_address %A : i64
  %2 = cast %0 {to = i64} : i64
  %3 = mul %2, 4:i64 : i64
  %4 = add %1, %3 : i64
  %a = load_mem %4, %A {space = "global", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
  %5 = pick %a {indices = (3,)} : f32
  %element = alloc {type_ = shared<1xf32>, layout = shared<1xb32; 1>, bytes = 16} : shared<1xf32>
  %6 = buffer_address %element : i32
  %7 = cmp %tid, 63 {predicate = "eq"} : bool
  store_mem %6, predicate = %7, %5, %element {space = "shared", address_of = (0,), offsets = (0,), predicate_of = (0,)}
  %8 = load_mem %6, %element {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
  %x = pick %8 {indices = (0,), same = true} : f32
  %9 = cmp %tid, 0 {predicate = "eq"} : bool
  %10 = global_address %B : i64
  store_mem %10, predicate = %9, %x, %B, [0] {space = "global", address_of = (0,), offsets = (0,), predicate_of = (0,), extent = (1,)}
}
