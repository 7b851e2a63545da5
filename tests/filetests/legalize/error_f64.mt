// pass: legalize
// target: sm_80
thread kernel @k(%d: f64) {
  %e = exp %d : f64  // expect-error: exp is not available in float64
  printf %e {text = ""}
}
