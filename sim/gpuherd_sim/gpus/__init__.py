"""A GPU host without GPUs: a scenario file, and two NVIDIA libraries that act it out."""
