// pass: drop_access_ranges
// The program's word that threads touch different elements has served, too: in a loop and around it. An atomic forgets its
// part like a store.
thread kernel @words(%A: tensor<128x128xf32>, %n: i32) attrs {threads = 128} {
  %a = global_address %A
  %word = disjoint %A
  for 0, %n, 1 (%k: i32) {
    %inner = disjoint %A
    atomic_mem %a, 1.0, %A, [%k, 0] {space = "global", kind = "add", address_of = (0,), offsets = (0,), extent = (1, 1), returns = false}
    %end = disjoint %A {end = true}
  }
  %last = disjoint %A {end = true}
}

// ----
thread kernel @words(%A: tensor<128x128xf32>, %n: i32) attrs {threads = 128} {
  %a = global_address %A : i64
  for 0, %n, 1 (%k: i32) {
    atomic_mem %a, 1.0, %A {space = "global", kind = "add", address_of = (0,), offsets = (0,), returns = false}
  }
}
