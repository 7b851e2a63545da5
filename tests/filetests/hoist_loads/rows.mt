// Weights are loaded before a reduction, with the mask that they need; what depends on the reduction stays behind it, and
// nothing passes a store.
// pass: hoist_loads
// target: sm_80
tile kernel @rows(%X: tensor<MxNxf32>, %W: tensor<Nxf32>, %V: tensor<Nxf32>, %Y: tensor<MxNxf32>) dims(M = %M: i32, N = %N: i32) facts {N = 8} attrs {threads = 128} {
  launch %M, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %j = iota {shape = (512,), dim = 0} : tile<512xi32>
    %x = load %X[%bx, 0] {shape = (512,), dims = (none, 0)} : tile<512xf32>
    %s = reduce %x {dim = 0, kind = "sum"} : f32
    %in = cmp %j, %N {predicate = "lt"} : tile<512xbool>
    %w = load %W[0], mask = %in {shape = (512,), dims = (0,)} : tile<512xf32>
    %n = cast %s {to = i32} : i32
    %v = load %V[%n] {shape = (512,), dims = (0,)} : tile<512xf32>
    %a = mul %w, %v : tile<512xf32>
    store %Y[%bx, 0], %a {dims = (none, 0)}
    %b = mul %a, %a : tile<512xf32>
    %u = load %V[0] {shape = (512,), dims = (0,)} : tile<512xf32>
    %c = mul %b, %u : tile<512xf32>
    store %Y[%bx, 0], %c {dims = (none, 0)}
  }
}

// ----
tile kernel @rows(%X: tensor<MxNxf32>, %W: tensor<Nxf32>, %V: tensor<Nxf32>, %Y: tensor<MxNxf32>) dims(M = %M: i32, N = %N: i32) facts {N = 8} attrs {threads = 128} {
  launch %M, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %x = load %X[%bx, 0] {shape = (512,), dims = (none, 0)} : tile<512xf32>
    %j = iota {shape = (512,), dim = 0} : tile<512xi32>
    %in = cmp %j, %N {predicate = "lt"} : tile<512xbool>
    %w = load %W[0], mask = %in {shape = (512,), dims = (0,)} : tile<512xf32>
    %s = reduce %x {dim = 0, kind = "sum"} : f32
    %n = cast %s {to = i32} : i32
    %v = load %V[%n] {shape = (512,), dims = (0,)} : tile<512xf32>
    %a = mul %w, %v : tile<512xf32>
    store %Y[%bx, 0], %a {dims = (none, 0)}
    %u = load %V[0] {shape = (512,), dims = (0,)} : tile<512xf32>
    %b = mul %a, %a : tile<512xf32>
    %c = mul %b, %u : tile<512xf32>
    store %Y[%bx, 0], %c {dims = (none, 0)}
  }
}
