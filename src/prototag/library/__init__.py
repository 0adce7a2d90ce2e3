"""A collection that is learned, looked through, corrected and learned on: one file, one object."""
