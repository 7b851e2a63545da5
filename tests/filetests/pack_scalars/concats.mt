// pass: pack_scalars
// Halves that come from the same operations on loaded ones, on one number, on f32; what was loaded is stored as it is.
thread kernel @concats(%A: tensor<64xf16>, %x: f32, %y: f32) attrs {threads = 32} {
  %a = global_address %A
  %r = load_mem %a, %A {space = "global", dtype = f16, count = 2, width = 2, address_of = (0,), offsets = (0,)}
  %x0 = pick %r {indices = (0,)}
  %x1 = pick %r {indices = (1,)}
  %d0 = mul %x0, 3.0:f16
  %d1 = mul %x1, 3.0:f16
  %h0 = cast %x {to = f16}
  %h1 = cast %y {to = f16}
  %s0 = add %d0, %h0
  %s1 = add %d1, %h1
  %s = concat %s0, %s1
  store_mem %a, %s, %A {space = "global", width = 2, address_of = (0,), offsets = (4,)}
  %t = concat %x0, %x1
  store_mem %a, %t, %A {space = "global", width = 2, address_of = (0,), offsets = (8,)}
  %u = concat %x1, %x0
  store_mem %a, %u, %A {space = "global", width = 2, address_of = (0,), offsets = (12,)}
}

// ----
thread kernel @concats(%A: tensor<64xf16>, %x: f32, %y: f32) attrs {threads = 32} {
  %a = global_address %A : i64
  %r = load_mem %a, %A {space = "global", dtype = f16, count = 2, width = 2, address_of = (0,), offsets = (0,)} : regs<2xf16>
  %x0 = pick %r {indices = (0,)} : f16
  %x1 = pick %r {indices = (1,)} : f16
  %d0 = mul %x0, 3.0:f16 : f16
  %d1 = mul %x1, 3.0:f16 : f16
  %h0 = cast %x {to = f16} : f16
  %h1 = cast %y {to = f16} : f16
  %s0 = add %d0, %h0 : f16
  %s1 = add %d1, %h1 : f16
  %0 = mul %r, 3.0:f16 : regs<2xf16>
  %1 = concat %x, %y : regs<2xf32>
  %2 = cast %1 {to = f16} : regs<2xf16>
  %s = add %0, %2 : regs<2xf16>
  store_mem %a, %s, %A {space = "global", width = 2, address_of = (0,), offsets = (4,)}
  store_mem %a, %r, %A {space = "global", width = 2, address_of = (0,), offsets = (8,)}
  %u = pick %r {indices = (1, 0)} : regs<2xf16>
  store_mem %a, %u, %A {space = "global", width = 2, address_of = (0,), offsets = (12,)}
}
