// pass: peel_remainder
// These stay: bounds that whole pieces do not prove either, that are known anyway, a loop of another number of rounds.
tile kernel @others(%A: tensor<Kxf16>, %B: tensor<64xf16>, %n: i32) dims(K = %K: i32) facts {K = 2} attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index
    %t2 = mul %t, 2
    %more = add %K, 63
    %m = floordiv %more, 64
    for 0, %m, 1 (%k: i32) {
      %at = mul %k, 65
      %i = add %at, %t2
      store_run %A[%i], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
    for 0, %m, 1 (%k: i32) {
      store_run %B[%t2], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
    for 0, %n, 1 (%k: i32) {
      %at = mul %k, 64
      %i = add %at, %t2
      store_run %A[%i], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
  }
}

// ----
tile kernel @others(%A: tensor<Kxf16>, %B: tensor<64xf16>, %n: i32) dims(K = %K: i32) facts {K = 2} attrs {threads = 32} {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index : i32
    %t2 = mul %t, 2 : i32
    %more = add %K, 63 : i32
    %m = floordiv %more, 64 : i32
    for 0, %m, 1 (%k: i32) {
      %at = mul %k, 65 : i32
      %i = add %at, %t2 : i32
      store_run %A[%i], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
    for 0, %m, 1 (%k_1: i32) {
      store_run %B[%t2], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
    for 0, %n, 1 (%k_2: i32) {
      %at_1 = mul %k_2, 64 : i32
      %i_1 = add %at_1, %t2 : i32
      store_run %A[%i_1], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
  }
}
