// The accesses make up the elements.
thread kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32, %p: bool) {
  %base = global_address %A
  %v = load_mem %base, %A {space = "global", dtype = f32, count = 8, width = 4, address_of = (0,), offsets = (0,)}  // expect-error: 1 accesses of 4 elements do not make 8
}
