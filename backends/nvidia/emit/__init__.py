"""Thread IR to PTX text."""
