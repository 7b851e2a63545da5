"""GEMMs whose blocks share K: those of a cluster, added up at once (split-K)."""
