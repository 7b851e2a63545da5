// Registers of a condition that differ by constants: decided one by one, so that a select only picks. Not where one of
// them is unknown.
// pass: simplify
// target: sm_90a
thread kernel @k(%C: tensor<64xf32>, %x: f32, %y: f32) attrs {threads = 32} {
  %c = global_address %C : i64
  %t = special {register = "tid.x"} : i32
  %l = floormod %t, 4 : i32
  %j = offsets %l {constants = (0, 3, 4, 8)} : regs<4xi32>
  %a = load_mem %c, %C {space = "global", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
  %low = cmp %j, 4 {predicate = "lt"} : regs<4xbool>
  %late = cmp %j, 8 {predicate = "ge"} : regs<4xbool>
  %twice = pick %late {indices = (3, 2, 1, 0)} : regs<4xbool>
  %p = select %late, %x, %a : regs<4xf32>
  %q = select %twice, %p, %y : regs<4xf32>
  %r = select %low, %x, %q : regs<4xf32>
  store_mem %c, %q, %C {space = "global", width = 4, address_of = (0,), offsets = (0,)}
  store_mem %c, %r, %C {space = "global", width = 4, address_of = (0,), offsets = (16,)}
}

// ----
thread kernel @k(%C: tensor<64xf32>, %x: f32, %y: f32) attrs {threads = 32} {
  %c = global_address %C : i64
  %t = special {register = "tid.x"} : i32
  %l = and %t, 3 : i32
  %j = offsets %l {constants = (0, 3, 4, 8)} : regs<4xi32>
  %a = load_mem %c, %C {space = "global", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
  %low = cmp %j, 4 {predicate = "lt"} : regs<4xbool>
  %0 = concat %x, %a : regs<5xf32>
  %p = pick %0 {indices = (1, 2, 3, 0)} : regs<4xf32>
  %1 = concat %p, %y : regs<5xf32>
  %q = pick %1 {indices = (0, 4, 4, 4)} : regs<4xf32>
  %r = select %low, %x, %q : regs<4xf32>
  store_mem %c, %q, %C {space = "global", width = 4, address_of = (0,), offsets = (0,)}
  store_mem %c, %r, %C {space = "global", width = 4, address_of = (0,), offsets = (16,)}
}
