// Addresses are integers.
thread kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32, %p: bool) {
  %v = load_mem %x, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}  // expect-error: the address is f32
}
