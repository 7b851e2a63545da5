// Thread operations come into being when tiles are lowered.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %t = special {register = "tid.x"}  // expect-error: special has no place in tile IR
}
