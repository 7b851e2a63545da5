"""The race model of AMD GPUs: LDS, global memory, visibility."""
