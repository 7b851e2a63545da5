// PTX ISA, cp.async: cp-size is 4, 8 or 16.
thread kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32, %p: bool) {
  %base = global_address %A
  %s = alloc {type_ = shared<64xf32>}
  %d = buffer_address %s
  %t = cp_async %d, %base, %s, %A {bytes = 2, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}  // expect-error: cp.async copies 4, 8 or 16 bytes, not 2
}
