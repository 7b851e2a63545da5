// pass: peel_remainder
// 4 rounds of 256 elements of 1000: the last one is by itself. Two rounds of 512 of 1024, and one round, stay.
tile kernel @rounds(%A: tensor<1000xf16>, %B: tensor<1024xf16>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index
    %t2 = mul %t, 2
    for 0, 4, 1 (%k: i32) {
      %at = mul %k, 256
      %i = add %at, %t2
      store_run %A[%i], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
    for 0, 2, 1 (%k: i32) {
      %at = mul %k, 512
      %i = add %at, %t2
      store_run %B[%i], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
    for 0, 1, 1 (%k: i32) {
      %at = mul %t2, 16
      store_run %A[%at], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
  }
}

// ----
tile kernel @rounds(%A: tensor<1000xf16>, %B: tensor<1024xf16>) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index : i32
    %t2 = mul %t, 2 : i32
    for 0, 3, 1 (%k: i32) {
      %at = mul %k, 256 : i32
      %i = add %at, %t2 : i32
      store_run %A[%i], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
    for 3, 4, 1 (%k_1: i32) {
      %at_1 = mul %k_1, 256 : i32
      %i_1 = add %at_1, %t2 : i32
      store_run %A[%i_1], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
    for 0, 2, 1 (%k_2: i32) {
      %at_2 = mul %k_2, 512 : i32
      %i_2 = add %at_2, %t2 : i32
      store_run %B[%i_2], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
    for 0, 1, 1 (%k_3: i32) {
      %at_3 = mul %t2, 16 : i32
      store_run %A[%at_3], [1.0:f16, 2.0:f16] {along = 0}
      yield
    }
  }
}
