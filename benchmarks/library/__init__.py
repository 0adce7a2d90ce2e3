"""Benchmarks of the library: scale, scans, review, and crash safety."""
