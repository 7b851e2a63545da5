// What a mask keeps from being loaded is 0 already: a select that says so again goes. -0.0, another number, another mask
// and arithmetic between the two stay.
// pass: simplify
// target: sm_80
tile kernel @masked(%A: tensor<MxNxbf16>, %C: tensor<MxNxf32>) dims(M = %M: i32, N = %N: i32) attrs {threads = 128} {
  launch %M, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %j = iota {shape = (512,), dim = 0} : tile<512xi32>
    %in = cmp %j, %N {predicate = "lt"} : tile<512xbool>
    %few = cmp %j, %bx {predicate = "lt"} : tile<512xbool>
    %zero = splat 0.0 {shape = (512,)} : tile<512xf32>
    %minus = splat -0.0 {shape = (512,)} : tile<512xf32>
    %one = splat 1.0 {shape = (512,)} : tile<512xf32>
    %x = load %A[%bx, 0], mask = %in {shape = (512,), dims = (none, 0)} : tile<512xbf16>
    %w = cast %x {to = f32} : tile<512xf32>
    %a = select %in, %w, %zero : tile<512xf32>
    store %C[%bx, 0], %a {dims = (none, 0)}
    %b = select %in, %w, 0.0 : tile<512xf32>
    store %C[%bx, 512], %b {dims = (none, 0)}
    %c = select %in, %w, %minus : tile<512xf32>
    store %C[%bx, 1024], %c {dims = (none, 0)}
    %d = select %in, %w, %one : tile<512xf32>
    store %C[%bx, 1536], %d {dims = (none, 0)}
    %e = select %few, %w, %zero : tile<512xf32>
    store %C[%bx, 2048], %e {dims = (none, 0)}
    %f = add %w, %one : tile<512xf32>
    %g = select %in, %f, %zero : tile<512xf32>
    store %C[%bx, 2560], %g {dims = (none, 0)}
  }
}

// ----
tile kernel @masked(%A: tensor<MxNxbf16>, %C: tensor<MxNxf32>) dims(M = %M: i32, N = %N: i32) attrs {threads = 128} {
  launch %M, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %j = iota {shape = (512,), dim = 0} : tile<512xi32>
    %in = cmp %j, %N {predicate = "lt"} : tile<512xbool>
    %few = cmp %j, %bx {predicate = "lt"} : tile<512xbool>
    %zero = splat 0.0 {shape = (512,)} : tile<512xf32>
    %minus = splat -0.0 {shape = (512,)} : tile<512xf32>
    %one = splat 1.0 {shape = (512,)} : tile<512xf32>
    %x = load %A[%bx, 0], mask = %in {shape = (512,), dims = (none, 0)} : tile<512xbf16>
    %w = cast %x {to = f32} : tile<512xf32>
    store %C[%bx, 0], %w {dims = (none, 0)}
    store %C[%bx, 512], %w {dims = (none, 0)}
    %c = select %in, %w, %minus : tile<512xf32>
    store %C[%bx, 1024], %c {dims = (none, 0)}
    %d = select %in, %w, %one : tile<512xf32>
    store %C[%bx, 1536], %d {dims = (none, 0)}
    %e = select %few, %w, %zero : tile<512xf32>
    store %C[%bx, 2048], %e {dims = (none, 0)}
    %f = add %w, %one : tile<512xf32>
    %g = select %in, %f, %zero : tile<512xf32>
    store %C[%bx, 2560], %g {dims = (none, 0)}
  }
}
