// The address that an access starts from exists.
thread kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32, %p: bool) {
  %base = global_address %A
  %v = load_mem %base, %A {space = "global", dtype = f32, count = 1, address_of = (1,), offsets = (0,)}  // expect-error: i64 has registers 0..0, asked for (1,)
}
