// Names are kept where they can be; a block may use the name of a value that it does not see.
tile kernel @names(%n: i32) {
  for 0, %n, 1 (%k: i32) {
    %x = add %k, 1
  }
  for 0, %n, 1 (%k: i32) {
    %x = add %k, 2
    %7 = add %x, 3
    %x_1 = add %7, 4
  }
}
// ----
tile kernel @names(%n: i32) {
  for 0, %n, 1 (%k: i32) {
    %x = add %k, 1 : i32
  }
  for 0, %n, 1 (%k_1: i32) {
    %x_1 = add %k_1, 2 : i32
    %0 = add %x_1, 3 : i32
    %x_1_1 = add %0, 4 : i32
  }
}
