// Both halves are computed where they are stored, 8 registers at a time; what the reduction needs stays where it is, and
// so does the scalar. Registers are asked for in another order than they are numbered in.
// pass: chunk_epilogue
// target: sm_90a
thread kernel @k(%A: tensor<64xf32>, %C: tensor<64xbf16>, %s: f32) attrs {threads = 32} {
  %a = global_address %A : i64
  %c = global_address %C : i64
  %t = mul %s, 2.0 : f32
  %x = load_mem %a, %A {space = "global", dtype = f32, count = 32, width = 4, address_of = (0 * 8,), offsets = (0, 16, .., 112)} : regs<32xf32>
  %y = add %x, %t : regs<32xf32>
  %m = shuffle_xor %y {mask = 1} : regs<32xf32>
  %z = mul %x, %m : regs<32xf32>
  %low = pick %z {indices = (0, 1, .., 15)} : regs<16xf32>
  %high = pick %z {indices = (16, 17, .., 31)} : regs<16xf32>
  %e = neg %high : regs<16xf32>
  %both = concat %e, %low : regs<32xf32>
  %h = cast %both {to = bf16} : regs<32xbf16>
  %first = pick %h {indices = (8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)} : regs<16xbf16>
  %second = pick %h {indices = (16, 17, .., 31)} : regs<16xbf16>
  store_mem %c, %first, %C {space = "global", width = 8, address_of = (0, 0), offsets = (0, 16)}
  barrier
  store_mem %c, %second, %C {space = "global", width = 8, address_of = (0, 0), offsets = (32, 48)}
}

// ----
thread kernel @k(%A: tensor<64xf32>, %C: tensor<64xbf16>, %s: f32) attrs {threads = 32} {
  %a = global_address %A : i64
  %c = global_address %C : i64
  %t = mul %s, 2.0 : f32
  %x = load_mem %a, %A {space = "global", dtype = f32, count = 32, width = 4, address_of = (0 * 8,), offsets = (0, 16, .., 112)} : regs<32xf32>
  %y = add %x, %t : regs<32xf32>
  %m = shuffle_xor %y {mask = 1} : regs<32xf32>
  %0 = pick %x {indices = (24, 25, .., 31)} : regs<8xf32>
  %1 = pick %m {indices = (24, 25, .., 31)} : regs<8xf32>
  %z = mul %0, %1 : regs<8xf32>
  %e = neg %z : regs<8xf32>
  %h = cast %e {to = bf16} : regs<8xbf16>
  %2 = pick %x {indices = (16, 17, .., 23)} : regs<8xf32>
  %3 = pick %m {indices = (16, 17, .., 23)} : regs<8xf32>
  %z_1 = mul %2, %3 : regs<8xf32>
  %e_1 = neg %z_1 : regs<8xf32>
  %h_1 = cast %e_1 {to = bf16} : regs<8xbf16>
  %4 = concat %h, %h_1 : regs<16xbf16>
  store_mem %c, %4, %C {space = "global", width = 8, address_of = (0, 0), offsets = (0, 16)}
  barrier
  %5 = pick %x {indices = (0, 1, .., 7)} : regs<8xf32>
  %6 = pick %m {indices = (0, 1, .., 7)} : regs<8xf32>
  %z_2 = mul %5, %6 : regs<8xf32>
  %h_2 = cast %z_2 {to = bf16} : regs<8xbf16>
  %7 = pick %x {indices = (8, 9, .., 15)} : regs<8xf32>
  %8 = pick %m {indices = (8, 9, .., 15)} : regs<8xf32>
  %z_3 = mul %7, %8 : regs<8xf32>
  %h_3 = cast %z_3 {to = bf16} : regs<8xbf16>
  %9 = concat %h_2, %h_3 : regs<16xbf16>
  store_mem %c, %9, %C {space = "global", width = 8, address_of = (0, 0), offsets = (32, 48)}
}
