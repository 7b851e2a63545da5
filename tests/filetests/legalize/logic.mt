// Two logic operations in a row on a tile, each with a constant, are one lop3; so is a mask that is used elsewhere too.
// What has a variable on either side stays as it is.
// pass: infer_layouts, lower, simplify, cse, legalize
// target: sm_80
tile kernel @k(%A: tensor<256xu32>, %B: tensor<256xu32>, %C: tensor<256xi32>) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0] {shape = (256,), dims = (0,)} : tile<256xu32>
    %m = and %a, 983055:u32 : tile<256xu32>
    %p = or %m, 1124090624:u32 : tile<256xu32>
    %q = xor %p, %m : tile<256xu32>
    store %B[0], %q {dims = (0,)}
  }
}

// ----
thread kernel @k(%A: tensor<256xu32>, %B: tensor<256xu32>, %C: tensor<256xi32>) attrs {threads = 32} {
  %tid = special {register = "tid.x"} : i32
  %0 = mul %tid, 4 : i32
  %1 = global_address %A : i64
  %2 = cast %0 {to = i64} : i64
  %3 = mul %2, 4:i64 : i64
  %4 = add %1, %3 : i64
  %a = load_mem %4, %A {space = "global", dtype = u32, count = 8, width = 4, address_of = (0, 0), offsets = (0, 512)} : regs<8xu32>
  %m = and %a, 983055:u32 : regs<8xu32>
  %p = ptx %a, 983055:u32, 1124090624:u32, 234 {text = "lop3.b32", dtype = u32} : regs<8xu32>
  %q = xor %p, %m : regs<8xu32>
  %5 = global_address %B : i64
  %6 = add %5, %3 : i64
  store_mem %6, %q, %B, [0] {space = "global", width = 4, address_of = (0, 0), offsets = (0, 512), extent = (256,)}
}
