"""GEMMs by split-K in a cluster, whose blocks add up their sums at once, and by stream-K: equal shares of all steps."""
