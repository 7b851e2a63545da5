// pass: pack_scalars
// All registers of what was loaded are converted to f32 one by one, so the value is; of the others not all are.
thread kernel @casts(%A: tensor<64xbf16>, %B: tensor<64xf32>) attrs {threads = 32} {
  %a = global_address %A
  %b = global_address %B
  %r = load_mem %a, %A {space = "global", dtype = bf16, count = 2, width = 2, address_of = (0,), offsets = (0,)}
  %s = load_mem %a, %A {space = "global", dtype = bf16, count = 2, width = 2, address_of = (0,), offsets = (4,)}
  %x0 = pick %r {indices = (0,)}
  %x1 = pick %r {indices = (1,)}
  %y1 = pick %s {indices = (1,)}
  %f1 = cast %x1 {to = f32}
  %g1 = cast %y1 {to = f32}
  %f0 = cast %x0 {to = f32}
  %p = mul %f0, %f1
  %q = mul %p, %g1
  store_mem %b, %q, %B {space = "global", address_of = (0,), offsets = (0,)}
}

// ----
thread kernel @casts(%A: tensor<64xbf16>, %B: tensor<64xf32>) attrs {threads = 32} {
  %a = global_address %A : i64
  %b = global_address %B : i64
  %r = load_mem %a, %A {space = "global", dtype = bf16, count = 2, width = 2, address_of = (0,), offsets = (0,)} : regs<2xbf16>
  %s = load_mem %a, %A {space = "global", dtype = bf16, count = 2, width = 2, address_of = (0,), offsets = (4,)} : regs<2xbf16>
  %x0 = pick %r {indices = (0,)} : bf16
  %x1 = pick %r {indices = (1,)} : bf16
  %y1 = pick %s {indices = (1,)} : bf16
  %0 = cast %r {to = f32} : regs<2xf32>
  %f1 = pick %0 {indices = (1,)} : f32
  %g1 = cast %y1 {to = f32} : f32
  %f0 = pick %0 {indices = (0,)} : f32
  %p = mul %f0, %f1 : f32
  %q = mul %p, %g1 : f32
  store_mem %b, %q, %B {space = "global", address_of = (0,), offsets = (0,)}
}
