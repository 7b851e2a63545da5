// A kernel has a name.
tile kernel (%n: i32) {  // expect-error: expected the kernel's @name
}
