// A product that the program wants in flight, and that wgmma cannot make: its B begins inside of what the swizzle keeps
// together.
// pass: lower_manual_wgmma
// target: sm_90a
tile kernel @error_in_flight(%C: tensor<64x64xf32>) attrs {threads = 128, explicit_sync = true} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %P = alloc {type_ = shared<64x96xbf16>} : shared<64x96xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %c = gemm %S[0, 0], %P[0, 8], %z {in_flight = true} : tile<64x64xf32> // expect-error: T.wgmma_gemm: 
    store %C[0, 0], %c {dims = (0, 1)}
    yield
  }
}
