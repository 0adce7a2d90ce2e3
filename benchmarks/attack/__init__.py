"""Attacks that anybody can repeat: see benchmarks/attack/__main__.py."""
