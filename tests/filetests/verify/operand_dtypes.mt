// Operations check their operands.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = add %n, %x  // expect-error: operands of different dtypes: i32, f32
}
