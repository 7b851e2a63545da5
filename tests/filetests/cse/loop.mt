// pass: cse
// What is known in front of a loop is known in it; what its body computes is forgotten behind it.
thread kernel @loop(%A: tensor<128xf32>, %n: i32) {
  %base = global_address %A : i64
  %twice = mul %n, 2 : i32
  for 0, %n, 1 (%k: i32) {
    %again = mul 2, %n : i32
    %square = mul %n, %n : i32
    %there = add %again, %square : i32
    %x = cast %there {to = f32} : f32
    store_mem %base, %x, %A {space = "global", address_of = (0,), offsets = (0,)}
  }
  %square_1 = mul %n, %n : i32
  %y = cast %square_1 {to = f32} : f32
  store_mem %base, %y, %A {space = "global", address_of = (0,), offsets = (4,)}
}

// ----
thread kernel @loop(%A: tensor<128xf32>, %n: i32) {
  %base = global_address %A : i64
  %twice = mul %n, 2 : i32
  for 0, %n, 1 (%k: i32) {
    %square = mul %n, %n : i32
    %there = add %twice, %square : i32
    %x = cast %there {to = f32} : f32
    store_mem %base, %x, %A {space = "global", address_of = (0,), offsets = (0,)}
  }
  %square_1 = mul %n, %n : i32
  %y = cast %square_1 {to = f32} : f32
  store_mem %base, %y, %A {space = "global", address_of = (0,), offsets = (4,)}
}
