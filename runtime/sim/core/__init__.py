"""What the simulators of both instruction sets share."""
