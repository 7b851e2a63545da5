"""LLVM in a process of its own: assembly, object files, linked code objects."""
