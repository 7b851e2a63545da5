// Each access has an offset.
thread kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32, %p: bool) {
  %base = global_address %A
  %v = load_mem %base, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = ()}  // expect-error: 1 addresses and 0 offsets
}
