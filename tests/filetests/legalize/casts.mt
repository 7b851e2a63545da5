// Conversions that sm_80 lacks go by others; f64 to bf16 rounds to odd on the way, so that it rounds once. %w has one.
// pass: legalize
// target: sm_80
thread kernel @k(%d: f64, %h: f16, %i: i8, %f: f32) {
  %a = cast %d {to = bf16} : bf16
  %b = cast %h {to = i32} : i32
  %c = cast %i {to = f32} : f32
  %w = cast %f {to = bf16} : bf16
  printf %a, %b, %c, %w {text = ""}
}

// ----
thread kernel @k(%d: f64, %h: f16, %i: i8, %f: f32) {
  %0 = ptx %d {text = "cvt.rz.f32.f64", dtype = f32} : f32
  %1 = cast %0 {to = f64} : f64
  %2 = cmp %1, %d {predicate = "ne"} : bool
  %3 = reinterpret %0 {to = i32} : i32
  %4 = cast %2 {to = i32} : i32
  %5 = or %3, %4 : i32
  %6 = reinterpret %5 {to = f32} : f32
  %a = cast %6 {to = bf16} : bf16
  %7 = cast %h {to = f32} : f32
  %b = cast %7 {to = i32} : i32
  %8 = cast %i {to = i32} : i32
  %c = cast %8 {to = f32} : f32
  %w = cast %f {to = bf16} : bf16
  printf %a, %b, %c, %w {text = ""}
}
