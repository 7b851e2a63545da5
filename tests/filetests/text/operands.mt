// Every way to write operands: lists, indices, optional ones, constants, defaults left out or given.
tile kernel @operands(%A: tensor<Mx"max"xf32>, %n: i32) dims(M = %M: i32, max = %max: i32) attrs {threads = 128} {
  launch %n, 1, 1 {threads = 128, cluster = (1, 1, 1)} (%bx: i32, %by: i32, %bz: i32) {
    %c = constant {value = 7, dtype = i32}
    %i = add %bx, %c                               // a constant's own line moves to where it is used
    %m = cmp %i, 3 {predicate = "lt"} : bool
    %a = alloc {type_ = shared<3 versions x 64xf32>}
    %v = load %a[0], slot = %i {shape = (64,), dims = (0,)}
    %w = load %A[%i, 0], mask = %m {shape = (), dims = (none, none)} ; a scalar
    %x = mul %w, -1.5e-07
    %y = max %x, -inf
    %half = cast %y {to = f16}
    %h = add %half, 0.5:f16
    %b = and %m, true
    %u = shl 4294967295:u32, 1:u32
    %j = iota {shape = (64,), dim = 0}
    %z, %acc = for 0, %n, 1,
        [%v, %y] {kind = "pipelined", stages = 3} (%k: i32, %t: tile<64xf32>, %f: f32) {
      %t1 = add %t, %f
      yield %t1, %f
    }
    store %A[%i, %j], %z, mask = %b {dims = (none, 0)}
    %1 = join
    %2 = no_token
    %0 = join %1, %2
    wait %0 {pending = 2}
    wait %0 {pending = none}
  }
}

// ----
tile kernel @operands(%A: tensor<Mx"max"xf32>, %n: i32) dims(M = %M: i32, max = %max: i32) attrs {threads = 128} {
  launch %n, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %i = add %bx, 7 : i32
    %m = cmp %i, 3 {predicate = "lt"} : bool
    %a = alloc {type_ = shared<3 versions x 64xf32>} : shared<3 versions x 64xf32>
    %v = load %a[0], slot = %i {shape = (64,), dims = (0,)} : tile<64xf32>
    %w = load %A[%i, 0], mask = %m {shape = (), dims = (none, none)} : f32
    %x = mul %w, -1.5e-07 : f32
    %y = max %x, -inf : f32
    %half = cast %y {to = f16} : f16
    %h = add %half, 0.5:f16 : f16
    %b = and %m, true : bool
    %u = shl 4294967295:u32, 1:u32 : u32
    %j = iota {shape = (64,), dim = 0} : tile<64xi32>
    %z, %acc = for 0, %n, 1, [%v, %y] {kind = "pipelined", stages = 3} : tile<64xf32>, f32 (%k: i32, %t: tile<64xf32>, %f: f32) {
      %t1 = add %t, %f : tile<64xf32>
      yield %t1, %f
    }
    store %A[%i, %j], %z, mask = %b {dims = (none, 0)}
    %0 = join : token
    %1 = no_token : token
    %2 = join %0, %1 : token
    wait %2 {pending = 2}
    wait %2
  }
}
