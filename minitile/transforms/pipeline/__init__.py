"""Loops whose copies and matrix products overlap: software pipelining, asynchronous gemms, schedules."""
