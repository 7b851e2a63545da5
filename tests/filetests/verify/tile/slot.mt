// Versions are counted in i32.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %s = alloc {type_ = shared<2 versions x 64x64xf32>}
  %v = load %s[0, 0], slot = %x {shape = (), dims = (none, none)}  // expect-error: the slot is f32, not i32
}
