// A loop that multiplies nothing: its branch stays, with the copy in it.
// pass: spread_copies
// target: sm_80
thread kernel @nothing_to_hide_behind(%A: tensor<64x64xbf16>, %n: i32) attrs {threads = 32} {
  %As = alloc {type_ = shared<16x32xbf16>} : shared<16x32xbf16>
  %a = global_address %A : i64
  %s = buffer_address %As : i32
  for 0, %n, 1 (%k: i32) {
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
    yield
  }
}

// ----
thread kernel @nothing_to_hide_behind(%A: tensor<64x64xbf16>, %n: i32) attrs {threads = 32} {
  %As = alloc {type_ = shared<16x32xbf16>} : shared<16x32xbf16>
  %a = global_address %A : i64
  %s = buffer_address %As : i32
  for 0, %n, 1 (%k: i32) {
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
    yield
  }
}
