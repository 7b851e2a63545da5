// pass: join_waits
// A barrier, an access of shared memory, a store, a copy to the same buffer, a loop: what stands between two waits so
// that the first one stays.
thread kernel @between(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<512xf32>}
  %T = alloc {type_ = shared<512xf32>}
  %s = buffer_address %S
  %t = buffer_address %T
  %g = global_address %A
  %a = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %ta = join %a
  wait %ta
  barrier
  %b = cp_async %t, %g, %T, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %tb = join %b
  wait %tb
  %x = load_mem %s, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)}
  %c = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %tc = join %c
  wait %tc
  %d = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
  %td = join %d
  wait %td
  for 0, %n, 1 (%k: i32) {
    %e = cp_async %t, %g, %T, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}
    %te = join %e
    wait %te
    yield
  }
}

// ----
thread kernel @between(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<512xf32>} : shared<512xf32>
  %T = alloc {type_ = shared<512xf32>} : shared<512xf32>
  %s = buffer_address %S : i32
  %t = buffer_address %T : i32
  %g = global_address %A : i64
  %a = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %ta = join %a : token
  wait %ta
  barrier
  %b = cp_async %t, %g, %T, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %tb = join %b : token
  wait %tb
  %x = load_mem %s, %S {space = "shared", dtype = f32, count = 4, width = 4, address_of = (0,), offsets = (0,)} : regs<4xf32>
  %c = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %tc = join %c : token
  wait %tc
  %d = cp_async %s, %g, %S, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
  %td = join %d : token
  wait %td
  for 0, %n, 1 (%k: i32) {
    %e = cp_async %t, %g, %T, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
    %te = join %e : token
    wait %te
    yield
  }
}
