// PTX ISA, ldmatrix: .x1, .x2, .x4.
thread kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32, %p: bool) {
  %s = alloc {type_ = shared<64xf16>}
  %d = buffer_address %s
  %m = ldmatrix %d, %s {dtype = f16, words = 3, number = 3, address_of = (0,), offsets = (0,)}  // expect-error: ldmatrix loads 1, 2 or 4 matrices, not 3
}
