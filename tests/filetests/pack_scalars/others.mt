// pass: pack_scalars
// These stay: different operations, a result that is used elsewhere, operands from two places.
thread kernel @others(%A: tensor<64xf16>) attrs {threads = 32} {
  %a = global_address %A
  %r = load_mem %a, %A {space = "global", dtype = f16, count = 2, width = 2, address_of = (0,), offsets = (0,)}
  %q = load_mem %a, %A {space = "global", dtype = f16, count = 2, width = 2, address_of = (0,), offsets = (4,)}
  %x0 = pick %r {indices = (0,)}
  %x1 = pick %r {indices = (1,)}
  %z1 = pick %q {indices = (1,)}
  %d0 = mul %x0, 3.0:f16
  %d1 = add %x1, 3.0:f16
  %d = concat %d0, %d1
  %e0 = mul %x0, 5.0:f16
  %e1 = mul %x1, 5.0:f16
  %e = concat %e0, %e1
  %g0 = mul %e0, 7.0:f16
  %g1 = mul %z1, 7.0:f16
  %g = concat %g0, %g1
  store_mem %a, %d, %A {space = "global", width = 2, address_of = (0,), offsets = (4,)}
  store_mem %a, %e, %A {space = "global", width = 2, address_of = (0,), offsets = (8,)}
  store_mem %a, %g, %A {space = "global", width = 2, address_of = (0,), offsets = (12,)}
}

// ----
thread kernel @others(%A: tensor<64xf16>) attrs {threads = 32} {
  %a = global_address %A : i64
  %r = load_mem %a, %A {space = "global", dtype = f16, count = 2, width = 2, address_of = (0,), offsets = (0,)} : regs<2xf16>
  %q = load_mem %a, %A {space = "global", dtype = f16, count = 2, width = 2, address_of = (0,), offsets = (4,)} : regs<2xf16>
  %x0 = pick %r {indices = (0,)} : f16
  %x1 = pick %r {indices = (1,)} : f16
  %z1 = pick %q {indices = (1,)} : f16
  %d0 = mul %x0, 3.0:f16 : f16
  %d1 = add %x1, 3.0:f16 : f16
  %d = concat %d0, %d1 : regs<2xf16>
  %e0 = mul %x0, 5.0:f16 : f16
  %e1 = mul %x1, 5.0:f16 : f16
  %e = concat %e0, %e1 : regs<2xf16>
  %g0 = mul %e0, 7.0:f16 : f16
  %g1 = mul %z1, 7.0:f16 : f16
  %g = concat %g0, %g1 : regs<2xf16>
  store_mem %a, %d, %A {space = "global", width = 2, address_of = (0,), offsets = (4,)}
  store_mem %a, %e, %A {space = "global", width = 2, address_of = (0,), offsets = (8,)}
  store_mem %a, %g, %A {space = "global", width = 2, address_of = (0,), offsets = (12,)}
}
