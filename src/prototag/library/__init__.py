"""Libraries: a collection with its labels, decisions and models in one SQLite file."""
