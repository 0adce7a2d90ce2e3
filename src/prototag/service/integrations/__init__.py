"""Adapters to the APIs of other programs."""
