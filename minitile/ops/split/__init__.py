"""GEMMs whose blocks share K: a cluster that adds up at once (split-K), or all blocks, in equal shares of all steps (stream-K)."""
