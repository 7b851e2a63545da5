"""Shared memory's places and everything that orders accesses: barriers, fences, waits and their counts."""
