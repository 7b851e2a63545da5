"""Scalar arithmetic, bounds and control flow, brought into a normal form and made small."""
