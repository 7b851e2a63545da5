"""GEMMs whose blocks share K: of a cluster, which adds up at once (split-K), or of the grid in equal shares (stream-K)."""
