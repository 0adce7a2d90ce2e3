"""Sparse, non-negative codes of vectors over prototypes: exact, certified and reproducible."""
