"""Products of few rows by weights of 4 and 8 bits: packing, plans, kernels, calls."""
