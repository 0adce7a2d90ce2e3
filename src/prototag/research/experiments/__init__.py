"""The experiments of the paper: methods under one protocol, tables and figures, by one command."""

from prototag.research.experiments.paper import run

__all__ = ["run"]
