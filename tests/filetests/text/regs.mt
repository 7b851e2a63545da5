// Thread IR: registers, and operations whose optional operands stand between the others.
thread kernel @regs(%A: tensor<64x64xf32>, %n: i32) attrs {threads = 32, shared_bytes = 0} {
  %tid = special {register = "tid.x"}
  %p = cmp %tid, %n {predicate = "lt"}
  %base = global_address %A
  %wide = cast %tid {to = i64}
  %at = add %base, %wide
  %v = load_mem %at, predicate = %p, %A {space = "global", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,), predicate_of = (0,)}
  %w = mul %v, 2.0
  store_mem %at, predicate = %p, %w, %A {space = "global", width = 4, address_of = (0,), offsets = (256,), predicate_of = (0,), span = (0, 16)}
  %q = pick %w {indices = (3, 0)}
  %c = concat %q, %w
}
// ----
thread kernel @regs(%A: tensor<64x64xf32>, %n: i32) attrs {threads = 32, shared_bytes = 0} {
  %tid = special {register = "tid.x"} : i32
  %p = cmp %tid, %n {predicate = "lt"} : bool
  %base = global_address %A : i64
  %wide = cast %tid {to = i64} : i64
  %at = add %base, %wide : i64
  %v = load_mem %at, predicate = %p, %A {space = "global", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,), predicate_of = (0,)} : regs<4xf32>
  %w = mul %v, 2.0 : regs<4xf32>
  store_mem %at, predicate = %p, %w, %A {space = "global", width = 4, address_of = (0,), offsets = (256,), predicate_of = (0,), span = (0, 16)}
  %q = pick %w {indices = (3, 0)} : regs<2xf32>
  %c = concat %q, %w : regs<6xf32>
}
