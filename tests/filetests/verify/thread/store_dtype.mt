// A store does not convert.
thread kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32, %p: bool) {
  %base = global_address %A
  store_mem %base, %n, %A {space = "global", address_of = (0,), offsets = (0,)}  // expect-error: the value is i32, the memory tensor<64x64xf32>
}
