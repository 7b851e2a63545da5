// Nothing moves: a product may update its operands in place, branches have their own time, addresses are no values, and
// the last chain is short.
// pass: chunk_epilogue
// target: sm_80
thread kernel @k(%A: tensor<64xf32>, %C: tensor<64xf32>, %flag: bool) attrs {threads = 32} {
  %a = global_address %A : i64
  %c = global_address %C : i64
  %x = load_mem %a, %A {space = "global", dtype = f32, count = 32, width = 4, address_of = (0 * 8,), offsets = (0, 16, .., 112)} : regs<32xf32>
  %f = pick 0.0:bf16 {indices = (0 * 32,)} : regs<32xbf16>
  %g = pick 0.0:bf16 {indices = (0 * 16,)} : regs<16xbf16>
  %y = neg %x : regs<32xf32>
  %p = mma_sync %f, %g, %x {atom = "m16n8k16.b16", repeats = (2, 4, 2)} : regs<32xf32>
  store_mem %c, %y, %C {space = "global", width = 4, address_of = (0 * 8,), offsets = (0, 16, .., 112)}
  %z = neg %p : regs<32xf32>
  if %flag then {
    store_mem %c, %z, %C {space = "global", width = 4, address_of = (0 * 8,), offsets = (0, 16, .., 112)}
    yield
  } orelse {
    yield
  }
  %o = offsets %c {constants = (0, 4, .., 124)} : regs<32xi64>
  %n = add %o, 64:i64 : regs<32xi64>
  store_mem %n, %p, %C {space = "global", width = 1, address_of = (0, 1, .., 31), offsets = (0 * 32,)}
  %q = pick %p {indices = (0, 1, .., 15)} : regs<16xf32>
  %r = abs %q : regs<16xf32>
  store_mem %c, %r, %C {space = "global", width = 4, address_of = (0, 0, 0, 0), offsets = (0, 16, 32, 48)}
}

// ----
thread kernel @k(%A: tensor<64xf32>, %C: tensor<64xf32>, %flag: bool) attrs {threads = 32} {
  %a = global_address %A : i64
  %c = global_address %C : i64
  %x = load_mem %a, %A {space = "global", dtype = f32, count = 32, width = 4, address_of = (0 * 8,), offsets = (0, 16, .., 112)} : regs<32xf32>
  %f = pick 0.0:bf16 {indices = (0 * 32,)} : regs<32xbf16>
  %g = pick 0.0:bf16 {indices = (0 * 16,)} : regs<16xbf16>
  %y = neg %x : regs<32xf32>
  %p = mma_sync %f, %g, %x {atom = "m16n8k16.b16", repeats = (2, 4, 2)} : regs<32xf32>
  store_mem %c, %y, %C {space = "global", width = 4, address_of = (0 * 8,), offsets = (0, 16, .., 112)}
  %z = neg %p : regs<32xf32>
  if %flag then {
    store_mem %c, %z, %C {space = "global", width = 4, address_of = (0 * 8,), offsets = (0, 16, .., 112)}
    yield
  } orelse {
    yield
  }
  %o = offsets %c {constants = (0, 4, .., 124)} : regs<32xi64>
  %n = add %o, 64:i64 : regs<32xi64>
  store_mem %n, %p, %C {space = "global", address_of = (0, 1, .., 31), offsets = (0 * 32,)}
  %q = pick %p {indices = (0, 1, .., 15)} : regs<16xf32>
  %r = abs %q : regs<16xf32>
  store_mem %c, %r, %C {space = "global", width = 4, address_of = (0, 0, 0, 0), offsets = (0, 16, 32, 48)}
}
