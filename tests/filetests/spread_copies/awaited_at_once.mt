// The copy is awaited in its own iteration, by the multiplication that reads it: the branch goes, the copy stays in place.
// pass: spread_copies
// target: sm_80
thread kernel @awaited_at_once(%A: tensor<64x64xbf16>, %C: tensor<16x8xf32>, %n: i32) attrs {threads = 32} {
  %As = alloc {type_ = shared<16x32xbf16>, layout = shared<16x32xb16; 16:512; 32:16; swizzle 64>, bytes = 1024} : shared<16x32xbf16>
  %a = global_address %A : i64
  %s = buffer_address %As : i32
  %z = pick 0.0 {indices = (0 * 8,)} : regs<8xf32>
  %c = for 0, %n, 1, [%z] : regs<8xf32> (%k: i32, %acc: regs<8xf32>) {
    %more = cmp %k, 4 {predicate = "lt"} : bool
    %x = if %more : token then {
      %cp = cp_async %s, %a, %As, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)} : token
      yield %cp
    } orelse {
      %no = no_token : token
      yield %no
    }
    %j = join %x : token
    wait %j
    %g = ldmatrix %s, %As {dtype = bf16, words = 4, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %m = mma_sync %g, %g, %acc {atom = "m16n8k16", repeats = (1, 2, 1)} : regs<8xf32>
    yield %m
  }
  %q = global_address %C : i64
  store_mem %q, %c, %C {space = "global", address_of = (0 * 8,), offsets = (0, 4, .., 28)}
}

// ----
thread kernel @awaited_at_once(%A: tensor<64x64xbf16>, %C: tensor<16x8xf32>, %n: i32) attrs {threads = 32} {
  %As = alloc {type_ = shared<16x32xbf16>, layout = shared<16x32xb16; 16:512; 32:16; swizzle 64>, bytes = 1024} : shared<16x32xbf16>
  %a = global_address %A : i64
  %s = buffer_address %As : i32
  %z = pick 0.0 {indices = (0 * 8,)} : regs<8xf32>
  %c = for 0, %n, 1, [%z] : regs<8xf32> (%k: i32, %acc: regs<8xf32>) {
    %more = cmp %k, 4 {predicate = "lt"} : bool
    %cp = cp_async %s, %a, enable = %more, %As, %A {bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,), enable_of = (0,)} : token
    %j = join %cp : token
    wait %j
    %g = ldmatrix %s, %As {dtype = bf16, words = 4, address_of = (0,), offsets = (0,)} : regs<8xbf16>
    %m = mma_sync %g, %g, %acc {atom = "m16n8k16", repeats = (1, 2, 1)} : regs<8xf32>
    yield %m
  }
  %q = global_address %C : i64
  store_mem %q, %c, %C {space = "global", address_of = (0 * 8,), offsets = (0, 4, .., 28)}
}
