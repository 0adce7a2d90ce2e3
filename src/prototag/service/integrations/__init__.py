"""Other programs, each in its own words: a thin layer over the same core."""
