"""Tile IR to thread IR: each tile operation becomes the instructions of one thread."""
