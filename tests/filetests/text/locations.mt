// A location replaces the place in the text; it is printed only on demand.
tile kernel @locations(%n: i32) {
  %x = add %n, 1 loc("kernel.py":12:5)
  if true then {
  } orelse {
  } loc("kernel.py":13:9)
}
// ----
tile kernel @locations(%n: i32) {
  %x = add %n, 1 : i32
  if true then {
  } orelse {
  }
}
