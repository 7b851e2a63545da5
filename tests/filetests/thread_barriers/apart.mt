// pass: thread_barriers
thread kernel @apart(%A: tensor<1024xf32>) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>}
  %s = buffer_address %S
  %t = special {register = "tid.x"}
  %at = mul %t, 4
  %mine = add %s, %at
  %other = xor %at, 4
  %theirs = add %s, %other
  %some = cmp %t, 40 {predicate = "lt"}
  if %some then {
    store_mem %mine, 1.0, %S {space = "shared", address_of = (0,), offsets = (0,)}
    %x = load_mem %mine, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    %y = load_mem %theirs, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}  // expect-error: no barrier can stand between
    store_mem %mine, %y, %S {space = "shared", address_of = (0,), offsets = (0,)}
  } orelse {
  }
}
