"""From loops over elements and mutable fragments to operations on SSA tile values."""
