"""Sparse, non-negative codes of vectors over prototypes: exact, certified, the same bits always."""
