// Each access has its predicate.
thread kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32, %p: bool) {
  %base = global_address %A
  store_mem %base, predicate = %p, %x, %A {space = "global", address_of = (0,), offsets = (0,)}  // expect-error: 0 predicates for 1 accesses
}
