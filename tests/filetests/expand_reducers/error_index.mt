// Half of the reducer, by an index of T.Parallel: which thread's result an element is would not be known.
// pass: expand_reducers
traced kernel @error_index(%A: tensor<8x64xf32>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %acc = alloc {type_ = fragment<16xf32>} : fragment<16xf32>
    parallel {extents = (8, 64)} (%i: i32, %j: i32) {
      %x = load %A[%i, %j] {shape = (), dims = (none, none)} : f32
      reducer_update %acc[%i], %x {kind = "sum"} // expect-error: neither a T.Parallel index over the whole dimension
      yield
    }
    finalize_reducer %acc
    yield
  }
}
