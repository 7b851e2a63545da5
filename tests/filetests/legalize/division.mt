// Rounding down: by a power of two a shift or a mask, by another constant C's division mirrored, else corrected.
// pass: legalize
// target: sm_80
thread kernel @k(%x: i32, %y: i32) {
  %a = floordiv %x, 8 : i32
  %b = floormod %x, 8 : i32
  %c = floordiv %x, 10 : i32
  %d = floordiv %x, %y : i32
  printf %a, %b, %c, %d {text = ""}
}

// ----
thread kernel @k(%x: i32, %y: i32) {
  %a = shr %x, 3 : i32
  %b = and %x, 7 : i32
  %0 = shr %x, 31 : i32
  %1 = xor %x, %0 : i32
  %2 = truncdiv %1, 10 : i32
  %c = xor %2, %0 : i32
  %3 = truncdiv %x, %y : i32
  %4 = mul %3, %y : i32
  %5 = sub %x, %4 : i32
  %6 = cmp %5, 0 {predicate = "ne"} : bool
  %7 = xor %5, %y : i32
  %8 = cmp %7, 0 {predicate = "lt"} : bool
  %9 = and %6, %8 : bool
  %10 = sub %3, 1 : i32
  %d = select %9, %10, %3 : i32
  printf %a, %b, %c, %d {text = ""}
}
