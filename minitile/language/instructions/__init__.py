"""Instructions of the hardware, by their own text or name: T.ptx, T.address_of."""
