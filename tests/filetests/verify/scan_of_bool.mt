// pass: simplify
tile kernel @k(%A: tensor<64xbool>) attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %a = load %A[0] {shape = (64,), dims = (0,)} : tile<64xbool>
    %s = scan %a {dim = 0, kind = "sum"} : tile<64xbool> // expect-error: a scan of bool
  }
}
