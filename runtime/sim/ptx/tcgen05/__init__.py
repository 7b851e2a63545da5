"""Tensor memory and tcgen05, as the PTX ISA 8.8 has them in 9.7.16: dense products, of one CTA or of a pair, also with
block scales (docs/blackwell.md)."""
