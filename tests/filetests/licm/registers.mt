// pass: licm
// What is held through a loop costs registers all the way: 8 of them move, 9 and 16 stay. So do loads: the loop may
// write what they read.
thread kernel @registers(%A: tensor<128xf32>, %n: i32, %x: f32) {
  %base = global_address %A : i64
  for 0, %n, 1 (%k: i32) {
    %few = pick %x {indices = (0 * 8,)} : regs<8xf32>
    %many = pick %x {indices = (0 * 16,)} : regs<16xf32>
    %nine = pick %x {indices = (0 * 9,)} : regs<9xf32>
    %y = load_mem %base, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    store_mem %base, %few, %A {space = "global", address_of = (0 * 8,), offsets = (0, 4, .., 28)}
    store_mem %base, %many, %A {space = "global", address_of = (0 * 16,), offsets = (0, 4, .., 60)}
    store_mem %base, %nine, %A {space = "global", address_of = (0 * 9,), offsets = (0, 4, .., 32)}
    store_mem %base, %y, %A {space = "global", address_of = (0,), offsets = (64,)}
  }
}

// ----
thread kernel @registers(%A: tensor<128xf32>, %n: i32, %x: f32) {
  %base = global_address %A : i64
  %few = pick %x {indices = (0 * 8,)} : regs<8xf32>
  for 0, %n, 1 (%k: i32) {
    %many = pick %x {indices = (0 * 16,)} : regs<16xf32>
    %nine = pick %x {indices = (0 * 9,)} : regs<9xf32>
    %y = load_mem %base, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    store_mem %base, %few, %A {space = "global", address_of = (0 * 8,), offsets = (0, 4, .., 28)}
    store_mem %base, %many, %A {space = "global", address_of = (0 * 16,), offsets = (0, 4, .., 60)}
    store_mem %base, %nine, %A {space = "global", address_of = (0 * 9,), offsets = (0, 4, .., 32)}
    store_mem %base, %y, %A {space = "global", address_of = (0,), offsets = (64,)}
  }
}
