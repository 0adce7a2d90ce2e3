"""Runs the command `prototag` as `python -m prototag`."""

from prototag.cli import main

if __name__ == "__main__":
    main()
