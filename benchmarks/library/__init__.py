"""The library measured: at scale, and killed."""
