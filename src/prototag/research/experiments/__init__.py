"""The paper's evidence: rivals under one protocol, its tables and figures, by one command."""

from prototag.research.experiments.paper import run

__all__ = ["run"]
