"""Instructions that are executed as one: blocks of arithmetic, once for each content; bursts of accesses."""
