"""GEMMs whose blocks have parts of K: of a cluster, which adds them up at once; or equal shares of all steps."""
