// A mask has a flag for each element.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %m = splat true {shape = (32,)}
  %v = load %A[0, 0], mask = %m {shape = (64,), dims = (none, 0)}  // expect-error: of another shape than (64,)
}
