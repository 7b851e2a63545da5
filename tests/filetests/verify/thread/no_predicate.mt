// No predicate, no numbers of predicates.
thread kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32, %p: bool) {
  %base = global_address %A
  store_mem %base, %x, %A {space = "global", address_of = (0,), offsets = (0,), predicate_of = (0,)}  // expect-error: predicates (0,) of nothing
}
