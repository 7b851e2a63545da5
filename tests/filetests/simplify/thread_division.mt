// pass: simplify
// In the thread stage: shifts and masks; C's division where the dividend is not negative; Python's stays where it may be.
thread kernel @division(%A: tensor<64xi32>, %n: i32) attrs {threads = 256} {
  %t = special {register = "tid.x"}
  %a = floordiv %t, 8
  %b = floormod %t, 8
  %c = floordiv %t, 6
  %d = floormod %t, 6
  %e = floordiv %n, 8
  %f = floormod %n, 8
  %g = floordiv %n, 6
  %h = truncdiv %n, 8
  %i = truncdiv %t, 8
  %j = truncmod %t, 8
  %p = global_address %A
  %all = concat %a, %b, %c, %d, %e, %f, %g, %h, %i, %j
  store_mem %p, %all, %A {space = "global", address_of = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0), offsets = (0, 4, 8, 12, 16, 20, 24, 28, 32, 36)}
}

// ----
thread kernel @division(%A: tensor<64xi32>, %n: i32) attrs {threads = 256} {
  %t = special {register = "tid.x"} : i32
  %a = shr %t, 3 : i32
  %b = and %t, 7 : i32
  %c = truncdiv %t, 6 : i32
  %d = truncmod %t, 6 : i32
  %e = shr %n, 3 : i32
  %f = and %n, 7 : i32
  %g = floordiv %n, 6 : i32
  %h = truncdiv %n, 8 : i32
  %i = shr %t, 3 : i32
  %j = and %t, 7 : i32
  %p = global_address %A : i64
  %all = concat %a, %b, %c, %d, %e, %f, %g, %h, %i, %j : regs<10xi32>
  store_mem %p, %all, %A {space = "global", address_of = (0 * 10,), offsets = (0, 4, .., 36)}
}
