// The second iteration's wait for the first phase would be none.
// pass: hoist_storage
// target: sm_90a
traced kernel @k(%n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    for 0, %n, 1 {kind = "serial"} (%t: i32) {
      %b = barriers {counts = (128,)} : shared<1xu64>
      barrier_arrive %b, 0
      barrier_wait %b, 0, 0 // expect-error: waits for parity 0 alone are wrong from the second iteration on
      yield
    }
    yield
  }
}
