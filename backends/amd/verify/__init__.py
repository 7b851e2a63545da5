"""What LLVM made of it: the assembly is read back and its waits, wait states and order are checked."""
