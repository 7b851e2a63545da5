"""What each instruction of CDNA 3 and CDNA 4 does."""
