"""The interpreter that traces a kernel's Python into tile IR."""
