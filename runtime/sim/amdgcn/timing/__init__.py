"""A cycle estimate of what a workgroup executed."""
