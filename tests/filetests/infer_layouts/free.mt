// Nothing is strict: the layout is that of the widest global access, four f32 a thread.
// pass: infer_layouts
// target: sm_80
tile kernel @add(%A: tensor<Nxf32>, %B: tensor<Nxf32>) dims(N = %N: i32) facts {N = 16} attrs {threads = 128} {
  %g0 = add %N, 1023 : i32
  %g = floordiv %g0, 1024 : i32
  launch %g, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %o = mul %bx, 1024 : i32
    %a = load %A[%o] {shape = (1024,), dims = (0,)} : tile<1024xf32>
    %b = add %a, %a : tile<1024xf32>
    store %B[%o], %b {dims = (0,)}
  }
}

// ----
tile kernel @add(%A: tensor<Nxf32>, %B: tensor<Nxf32>) dims(N = %N: i32) facts {N = 16} attrs {threads = 128} {
  %g0 = add %N, 1023 : i32
  %g = floordiv %g0, 1024 : i32
  launch %g, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %o = mul %bx, 1024 : i32
    %a = load %A[%o] {shape = (1024,), dims = (0,)} : tile<1024xf32, layout<1024; reg 4:1@0, 2:512@0; lane 32:4@0; warp 4:128@0>>
    %b = add %a, %a : tile<1024xf32, layout<1024; reg 4:1@0, 2:512@0; lane 32:4@0; warp 4:128@0>>
    store %B[%o], %b {dims = (0,)}
  }
}
