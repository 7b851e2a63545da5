"""Ready kernels whose time is that of moving their bytes: one family of operations a file."""
