// pass: thread_barriers
thread kernel @while(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>}
  %s = buffer_address %S
  %r = while [%n] : i32 before (%w: i32) {
    %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}
    %zero = cmp %x, 0.0 {predicate = "gt"}
    condition %zero, [%w]
  } body (%w: i32) {
    %next = sub %w, 1
    %f = cast %next {to = f32}
    store_mem %s, %f, %S {space = "shared", address_of = (0,), offsets = (0,)}
    yield %next
  }
}

// ----
thread kernel @while(%A: tensor<1024xf32>, %n: i32) attrs {threads = 128} {
  %S = alloc {type_ = shared<128xf32>} : shared<128xf32>
  %s = buffer_address %S : i32
  %r = while %n : i32 before (%w: i32) {
    barrier
    %x = load_mem %s, %S {space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)} : f32
    %zero = cmp %x, 0.0 {predicate = "gt"} : bool
    condition %zero, [%w]
  } body (%w_1: i32) {
    %next = sub %w_1, 1 : i32
    %f = cast %next {to = f32} : f32
    barrier
    store_mem %s, %f, %S {space = "shared", address_of = (0,), offsets = (0,)}
    yield %next
  }
}
