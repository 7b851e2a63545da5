"""NVIDIA: lowering to PTX instructions, the PTX writer, the assembler."""
