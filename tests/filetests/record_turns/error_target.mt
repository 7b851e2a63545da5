// There is no such clock.
// pass: record_turns
// target: gfx942
thread kernel @k(%A: tensor<64xf32>, %clocks: tensor<2x4x8xi64>) dims(N = %N: i32) attrs {threads = 64, profile = "clocks"} {
  %n = for 0, %N, 1, [0] : i32 (%i: i32, %s: i32) {
    %t = add %s, %i : i32
    yield %t
  }
  %a = global_address %A : i64
  for 0, %N, 1 (%j: i32) {
    for 0, %n, 1 (%k: i32) {  // expect-error: T.profile on gfx942
      %x = load_mem %a, %A {space = "global", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
      yield
    }
    yield
  }
}
