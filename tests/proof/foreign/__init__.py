"""PTX that others write or compile: programs by hand, what other compilers make, and each form of its own."""
