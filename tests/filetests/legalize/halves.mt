// 16-bit integers go two in a word where no bit crosses: logic, shifts by constants (also of the lower and the upper
// halves by different ones), sums and products that stay below 2**16. What may cross is masked; what wraps, or goes by a
// variable, is widened.
// pass: simplify, legalize, simplify, cse
// target: sm_80
thread kernel @k(%X: tensor<64xu16>, %Y: tensor<64xu16>, %n: u16) attrs {threads = 32} {
  %from = global_address %X : i64
  %to = global_address %Y : i64
  %x = load_mem %from, %X {space = "global", dtype = u16, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xu16>
  %l = special {register = "tid.x"} : i32
  %even = mul %l, 2 : i32
  %j = offsets %even {constants = (0, 1, 8, 9)} : regs<4xi32>
  %odd = floormod %j, 2 : regs<4xi32>
  %which = cast %odd {to = u16} : regs<4xu16>
  %by = mul %which, 4:u16 : regs<4xu16>
  %crosses = shr %x, 3:u16 : regs<4xu16>
  %nibble = shr %x, %by : regs<4xu16>
  %f = and %nibble, 15:u16 : regs<4xu16>
  %high = shl %f, 12:u16 : regs<4xu16>
  %sum = add %f, %crosses : regs<4xu16>
  %product = mul %f, 4369:u16 : regs<4xu16>
  %wraps = mul %f, 4370:u16 : regs<4xu16>
  %varies = shr %x, %n : regs<4xu16>
  %not = not %f : regs<4xu16>
  %out = xor %high, %not : regs<4xu16>
  store_mem %to, %crosses, %Y {space = "global", width = 4, address_of = (0,), offsets = (0,)}
  store_mem %to, %sum, %Y {space = "global", width = 4, address_of = (0,), offsets = (8,)}
  store_mem %to, %product, %Y {space = "global", width = 4, address_of = (0,), offsets = (16,)}
  store_mem %to, %wraps, %Y {space = "global", width = 4, address_of = (0,), offsets = (24,)}
  store_mem %to, %varies, %Y {space = "global", width = 4, address_of = (0,), offsets = (32,)}
  store_mem %to, %out, %Y {space = "global", width = 4, address_of = (0,), offsets = (40,)}
}

// ----
thread kernel @k(%X: tensor<64xu16>, %Y: tensor<64xu16>, %n: u16) attrs {threads = 32} {
  %from = global_address %X : i64
  %to = global_address %Y : i64
  %x = load_mem %from, %X {space = "global", dtype = u16, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xu16>
  %0 = recast %x {to = u32} : regs<2xu32>
  %1 = shr %0, 3:u32 : regs<2xu32>
  %2 = and %1, 536813567:u32 : regs<2xu32>
  %crosses = recast %2 {to = u16} : regs<4xu16>
  %3 = shr %0, 4:u32 : regs<2xu32>
  %4 = and %0, 15:u32 : regs<2xu32>
  %5 = and %3, 983040:u32 : regs<2xu32>
  %6 = or %4, %5 : regs<2xu32>
  %f = recast %6 {to = u16} : regs<4xu16>
  %7 = shl %6, 12:u32 : regs<2xu32>
  %8 = add %6, %2 : regs<2xu32>
  %sum = recast %8 {to = u16} : regs<4xu16>
  %9 = mul %6, 4369:u32 : regs<2xu32>
  %product = recast %9 {to = u16} : regs<4xu16>
  %10 = cast %f {to = u32} : regs<4xu32>
  %11 = mul %10, 4370:u32 : regs<4xu32>
  %wraps = cast %11 {to = u16} : regs<4xu16>
  %12 = cast %x {to = u32} : regs<4xu32>
  %13 = cast %n {to = u32} : u32
  %14 = shr %12, %13 : regs<4xu32>
  %varies = cast %14 {to = u16} : regs<4xu16>
  %15 = not %6 : regs<2xu32>
  %16 = xor %7, %15 : regs<2xu32>
  %out = recast %16 {to = u16} : regs<4xu16>
  store_mem %to, %crosses, %Y {space = "global", width = 4, address_of = (0,), offsets = (0,)}
  store_mem %to, %sum, %Y {space = "global", width = 4, address_of = (0,), offsets = (8,)}
  store_mem %to, %product, %Y {space = "global", width = 4, address_of = (0,), offsets = (16,)}
  store_mem %to, %wraps, %Y {space = "global", width = 4, address_of = (0,), offsets = (24,)}
  store_mem %to, %varies, %Y {space = "global", width = 4, address_of = (0,), offsets = (32,)}
  store_mem %to, %out, %Y {space = "global", width = 4, address_of = (0,), offsets = (40,)}
}
