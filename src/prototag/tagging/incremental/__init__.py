"""Incremental updates of a fitted model, with the representation frozen."""
