"""Options of MCDL for tests, with the points of a recipe given beside the parameters."""

from __future__ import annotations

from dataclasses import fields, replace

from prototag.mcdl.settings import RECIPES, Recipe

POINTS = {field.name for field in fields(Recipe)}


def gathered(recipe="paper", **options):
    """The options, those that are points of a recipe gathered into one."""
    points = {name: options.pop(name) for name in list(options) if name in POINTS}
    return {**options, "recipe": replace(RECIPES[recipe], **points) if points else recipe}
