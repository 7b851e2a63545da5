// A vector and a tile in shared memory are loaded in parts: the first one where the load stood, the others in front of
// the store that takes them. What both stores need of the vector is loaded once. The release of other buffers does not
// hinder that, but %late must have been read when the tile's own slot is released.
// pass: chunk_epilogue
// target: sm_90a
thread kernel @k(%V: tensor<64xf32>, %X: tensor<64xf32>, %D: tensor<64xf32>, %C: tensor<64xf32>) attrs {threads = 32} {
  %v = global_address %V : i64
  %d = global_address %D : i64
  %c = global_address %C : i64
  %tile = alloc {type_ = shared<64xf32>, bytes = 256} : shared<64xf32>
  %own = alloc {type_ = shared<2xu64>, bytes = 16} : shared<2xu64>
  %other = alloc {type_ = shared<2xu64>, bytes = 16} : shared<2xu64>
  %t = buffer_address %tile : i32
  %full = buffer_address %own : i32
  %empty = add %full, 8 : i32
  %free = buffer_address %other : i32
  %e = elect : bool
  tma_load %t, %full, [0], %tile, 0, %own, tensor = %X, predicate = %e {map = "X_map"}
  %a = load_mem %c, %C {space = "global", dtype = f32, count = 32, width = 4, address_of = (0 * 8,), offsets = (0, 16, .., 112)} : regs<32xf32>
  %late = load_mem %t, %tile {space = "shared", dtype = f32, count = 32, width = 2, address_of = (0 * 16,), offsets = (0, 8, .., 120)} : regs<32xf32>
  mbarrier_arrive %empty, %own
  %bias = load_mem %v, %V {space = "global", dtype = f32, count = 24, width = 4, address_of = (0 * 6,), offsets = (0, 16, .., 80)} : regs<24xf32>
  %more = load_mem %t, %tile {space = "shared", dtype = f32, count = 32, width = 2, address_of = (0 * 16,), offsets = (128, 136, .., 248)} : regs<32xf32>
  mbarrier_arrive %free, %other
  %b = pick %bias {indices = (0, 1, .., 7, 0, 1, .., 7, 0, 1, .., 7, 16, 17, .., 23)} : regs<32xf32>
  %x = add %a, %b : regs<32xf32>
  %y = add %x, %late : regs<32xf32>
  %z = add %y, %more : regs<32xf32>
  %low = pick %z {indices = (0, 1, .., 15)} : regs<16xf32>
  %high = pick %z {indices = (16, 17, .., 31)} : regs<16xf32>
  store_mem %d, %low, %D {space = "global", width = 4, address_of = (0 * 4,), offsets = (0, 16, 32, 48)}
  store_mem %d, %high, %D {space = "global", width = 4, address_of = (0 * 4,), offsets = (64, 80, 96, 112)}
}


// ----
thread kernel @k(%V: tensor<64xf32>, %X: tensor<64xf32>, %D: tensor<64xf32>, %C: tensor<64xf32>) attrs {threads = 32} {
  %v = global_address %V : i64
  %d = global_address %D : i64
  %c = global_address %C : i64
  %tile = alloc {type_ = shared<64xf32>, bytes = 256} : shared<64xf32>
  %own = alloc {type_ = shared<2xu64>, bytes = 16} : shared<2xu64>
  %other = alloc {type_ = shared<2xu64>, bytes = 16} : shared<2xu64>
  %t = buffer_address %tile : i32
  %full = buffer_address %own : i32
  %empty = add %full, 8 : i32
  %free = buffer_address %other : i32
  %e = elect : bool
  tma_load %t, %full, [0], %tile, 0, %own, tensor = %X, predicate = %e {map = "X_map"}
  %a = load_mem %c, %C {space = "global", dtype = f32, count = 32, width = 4, address_of = (0 * 8,), offsets = (0, 16, .., 112)} : regs<32xf32>
  %late = load_mem %t, %tile {space = "shared", dtype = f32, count = 32, width = 2, address_of = (0 * 16,), offsets = (0, 8, .., 120)} : regs<32xf32>
  mbarrier_arrive %empty, %own
  %bias = load_mem %v, %V {space = "global", dtype = f32, count = 8, width = 4, address_of = (0, 0), offsets = (0, 16)} : regs<8xf32>
  %more = load_mem %t, %tile {space = "shared", dtype = f32, count = 8, width = 2, address_of = (0, 0, 0, 0), offsets = (128, 136, 144, 152)} : regs<8xf32>
  %more_1 = load_mem %t, %tile {space = "shared", dtype = f32, count = 8, width = 2, address_of = (0, 0, 0, 0), offsets = (160, 168, 176, 184)} : regs<8xf32>
  mbarrier_arrive %free, %other
  %0 = pick %a {indices = (0, 1, .., 7)} : regs<8xf32>
  %x = add %0, %bias : regs<8xf32>
  %1 = pick %late {indices = (0, 1, .., 7)} : regs<8xf32>
  %y = add %x, %1 : regs<8xf32>
  %z = add %y, %more : regs<8xf32>
  %2 = pick %a {indices = (8, 9, .., 15)} : regs<8xf32>
  %x_1 = add %2, %bias : regs<8xf32>
  %3 = pick %late {indices = (8, 9, .., 15)} : regs<8xf32>
  %y_1 = add %x_1, %3 : regs<8xf32>
  %z_1 = add %y_1, %more_1 : regs<8xf32>
  %4 = concat %z, %z_1 : regs<16xf32>
  store_mem %d, %4, %D {space = "global", width = 4, address_of = (0, 0, 0, 0), offsets = (0, 16, 32, 48)}
  %bias_1 = load_mem %v, %V {space = "global", dtype = f32, count = 8, width = 4, address_of = (0, 0), offsets = (64, 80)} : regs<8xf32>
  %more_2 = load_mem %t, %tile {space = "shared", dtype = f32, count = 8, width = 2, address_of = (0, 0, 0, 0), offsets = (192, 200, 208, 216)} : regs<8xf32>
  %more_3 = load_mem %t, %tile {space = "shared", dtype = f32, count = 8, width = 2, address_of = (0, 0, 0, 0), offsets = (224, 232, 240, 248)} : regs<8xf32>
  %5 = pick %a {indices = (16, 17, .., 23)} : regs<8xf32>
  %x_2 = add %5, %bias : regs<8xf32>
  %6 = pick %late {indices = (16, 17, .., 23)} : regs<8xf32>
  %y_2 = add %x_2, %6 : regs<8xf32>
  %z_2 = add %y_2, %more_2 : regs<8xf32>
  %7 = pick %a {indices = (24, 25, .., 31)} : regs<8xf32>
  %x_3 = add %7, %bias_1 : regs<8xf32>
  %8 = pick %late {indices = (24, 25, .., 31)} : regs<8xf32>
  %y_3 = add %x_3, %8 : regs<8xf32>
  %z_3 = add %y_3, %more_3 : regs<8xf32>
  %9 = concat %z_2, %z_3 : regs<16xf32>
  store_mem %d, %9, %D {space = "global", width = 4, address_of = (0, 0, 0, 0), offsets = (64, 80, 96, 112)}
}
