// Types are known.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %a = add %n, %n : tille<64xf32>  // expect-error: tille<64xf32> is neither a type nor a layout
}
