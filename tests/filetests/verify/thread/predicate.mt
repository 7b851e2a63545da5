// Predicates are bool.
thread kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32, %p: bool) {
  %base = global_address %A
  %v = load_mem %base, predicate = %n, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,), predicate_of = (0,)}  // expect-error: the predicate is i32, not bool
}
