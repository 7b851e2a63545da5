// Element types are known.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = add %n, %n : tile<64xf31>  // expect-error: 'f31' is not an element type
}
