"""What a request that does not have the shape is told."""

from __future__ import annotations

import pytest

from prototag.service.json_schemas import COMPONENTS, check
from prototag.service.problem_details import Problem


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        ({"type": "integer"}, "x", "the body is 'x': give an integer."),
        ({"type": "integer"}, True, "the body is True: give an integer."),
        ({"type": "number"}, "x", "the body is 'x': give a number."),
        ({"type": "string"}, 1, "the body is 1: give a string."),
        ({"type": "boolean"}, 1, "the body is 1: give a boolean."),
        ({"type": "array", "items": {}}, 1, "the body is 1: give an array."),
        ({"type": "object"}, 1, "the body is 1: give an object."),
        ({"type": "integer", "minimum": 1}, 0, "the body is 0: give a number from 1 on."),
    ],
)
def test_a_wrong_value_is_reported_in_a_grammatical_sentence(schema, value, words):
    with pytest.raises(Problem) as told:
        check(value, schema)
    assert (told.value.status, told.value.detail) == (400, words)


def parts(schema):
    """A schema and all schemas inside it."""
    yield schema
    inside = [*schema.get("properties", {}).values()]
    inside += [schema["items"]] if "items" in schema else []
    for part in inside:
        yield from parts(part)


def test_a_schema_with_a_maximum_has_a_minimum():
    """The message says from where to where."""
    limited = [one for schema in COMPONENTS.values() for one in parts(schema) if "maximum" in one]
    assert limited
    assert all("minimum" in one or "exclusiveMinimum" in one for one in limited)
