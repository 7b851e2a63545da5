"""The layouts of registers and of shared memory."""
