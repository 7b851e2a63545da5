// pass: thread_barriers
// Each thread stores pieces of its own row, of 128 swizzled bytes, by two addresses at once: the second store goes to
// other pieces of the same rows, and needs no barrier. The third one does: by its second address it goes to the row of
// another thread.
thread kernel @swizzled_pieces() attrs {threads = 64} {
  %S = alloc {type_ = shared<64x64xbf16>, offset = 0, bytes = 8192}
  %s = buffer_address %S
  %t = special {register = "tid.x"}
  %v = pick 0.0:bf16 {indices = (0 * 16,)}
  %row = mul %t, 128
  %turn = and %t, 7
  %moved = mul %turn, 16
  %one = xor %row, %moved
  %a = add %s, %one
  %two = xor %one, 16
  %b = add %s, %two
  %first = concat %a, %b
  store_mem %first, %v, %S {space = "shared", width = 8, address_of = (0, 1), offsets = (0, 0)}
  %three = xor %one, 32
  %c = add %s, %three
  %four = xor %one, 48
  %d = add %s, %four
  %second = concat %c, %d
  store_mem %second, %v, %S {space = "shared", width = 8, address_of = (0, 1), offsets = (0, 0)}
  %next = xor %four, 128
  %e = add %s, %next
  %third = concat %c, %e
  store_mem %third, %v, %S {space = "shared", width = 8, address_of = (0, 1), offsets = (0, 0)}
}

// ----
thread kernel @swizzled_pieces() attrs {threads = 64} {
  %S = alloc {type_ = shared<64x64xbf16>, offset = 0, bytes = 8192} : shared<64x64xbf16>
  %s = buffer_address %S : i32
  %t = special {register = "tid.x"} : i32
  %v = pick 0.0:bf16 {indices = (0 * 16,)} : regs<16xbf16>
  %row = mul %t, 128 : i32
  %turn = and %t, 7 : i32
  %moved = mul %turn, 16 : i32
  %one = xor %row, %moved : i32
  %a = add %s, %one : i32
  %two = xor %one, 16 : i32
  %b = add %s, %two : i32
  %first = concat %a, %b : regs<2xi32>
  store_mem %first, %v, %S {space = "shared", width = 8, address_of = (0, 1), offsets = (0, 0)}
  %three = xor %one, 32 : i32
  %c = add %s, %three : i32
  %four = xor %one, 48 : i32
  %d = add %s, %four : i32
  %second = concat %c, %d : regs<2xi32>
  store_mem %second, %v, %S {space = "shared", width = 8, address_of = (0, 1), offsets = (0, 0)}
  %next = xor %four, 128 : i32
  %e = add %s, %next : i32
  %third = concat %c, %e : regs<2xi32>
  barrier
  store_mem %third, %v, %S {space = "shared", width = 8, address_of = (0, 1), offsets = (0, 0)}
}
