// sm_80 has no bf16 add and mul but fma, no f16 division, and no 8-bit integers: those are computed wider.
// pass: legalize
// target: sm_80
thread kernel @k(%b: bf16, %h: f16, %i: i8, %p: bool, %n: i32) {
  %sum = add %b, %b : bf16
  %product = mul %b, %b : bf16
  %quotient = div %h, %h : f16
  %wraps = add %i, %i : i8
  %less = cmp %i, %wraps {predicate = "lt"} : bool
  %either = select %less, %p, %less : bool
  printf %sum, %product, %quotient, %wraps, %either {text = ""}
}

// ----
thread kernel @k(%b: bf16, %h: f16, %i: i8, %p: bool, %n: i32) {
  %sum = fma %b, 1.0:bf16, %b : bf16
  %product = fma %b, %b, -0.0:bf16 : bf16
  %0 = cast %h {to = f32} : f32
  %1 = cast %h {to = f32} : f32
  %2 = div %0, %1 : f32
  %quotient = cast %2 {to = f16} : f16
  %3 = cast %i {to = i32} : i32
  %4 = cast %i {to = i32} : i32
  %5 = add %3, %4 : i32
  %wraps = cast %5 {to = i8} : i8
  %6 = cast %i {to = i32} : i32
  %7 = cast %wraps {to = i32} : i32
  %less = cmp %6, %7 {predicate = "lt"} : bool
  %8 = and %less, %p : bool
  %9 = not %less : bool
  %10 = and %9, %less : bool
  %either = or %8, %10 : bool
  printf %sum, %product, %quotient, %wraps, %either {text = ""}
}
