"""Tensor memory and tcgen05, as the PTX ISA 8.8 has them in 9.7.16: one CTA, dense products (docs/blackwell.md)."""
