"""Pictures in, tags out: the one thing that the command line, a page or a program talks to."""
