"""Mutation testing of assembly: synchronisation is removed or weakened, and a check must fail."""
