"""Thread IR to LLVM IR text."""
