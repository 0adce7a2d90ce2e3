"""Annotation time of the nearest-neighbour baselines and of MCDL."""
