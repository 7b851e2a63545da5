"""What passes ask: integer ranges and proofs, divergence, memory dependence. Nothing here changes a kernel."""
