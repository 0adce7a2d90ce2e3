"""`python -m prototag` is the command `prototag`."""

from prototag.cli import main

if __name__ == "__main__":
    main()
