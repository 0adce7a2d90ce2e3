"""Seeded fuzz tests: see benchmarks/attack/__main__.py."""
