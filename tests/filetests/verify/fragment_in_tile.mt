// Fragments have become values.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %f = alloc {type_ = fragment<64xf32>}  // expect-error: a value of type fragment<64xf32> has no place in tile IR
}
