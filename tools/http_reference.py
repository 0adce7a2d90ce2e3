"""Generate docs/reference/http.md from the OpenAPI document of the service.

    python -m tools.http_reference

A test compares the page with what this gives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prototag.service.app import GROUPS
from prototag.service.openapi import BODY_ERRORS, COMMON_ERRORS, document

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "http.md"
HEAD = """# HTTP

Generated from the OpenAPI document by `python -m tools.http_reference`. A running service returns
that document at `/api/v1/openapi.json`. Examples: [HTTP](../integrate/http.md).

Bodies and answers are JSON unless noted. Names with a question mark are optional. Operations that
need a library answer 409 if the service has only a model.
"""
SHAPES = """
## Shapes

The types of bodies and answers.
"""


def page() -> str:
    """Return the page."""
    description = document(GROUPS)
    described = [
        (method.upper(), path, one)
        for path, methods in description["paths"].items()
        for method, one in methods.items()
    ]
    parts = [HEAD, "\n| | |\n|---|---|\n"]
    for method, path, one in described:
        parts.append(f"| [`{method} {_short(path)}`](#{_anchor(one)}) | {one['summary']} |\n")
    parts.append(_problems(description))
    parts += [_operation(method, path, one) for method, path, one in described]
    parts.append(SHAPES)
    used = "".join(parts) + str(description["components"]["schemas"])
    for name, one in description["components"]["schemas"].items():
        if f"#shape-{name.lower()}" in used or f"/{name}'" in used:  # others are of other programs
            parts.append(_shape(name, one))
    return "".join(parts)


def _short(path: str) -> str:
    return path.removeprefix("/api/v1/")


def _anchor(one: dict[str, Any]) -> str:
    return str(one["operationId"]).replace("_", "-").lower()


def _problems(description: dict[str, Any]) -> str:
    """Return the statuses that every operation can answer."""
    words = {
        int(status): answer["description"]
        for methods in description["paths"].values()
        for one in methods.values()
        for status, answer in one["responses"].items()
        if int(status) >= 400
    }
    rows = "".join(f"| {status} | {words[status]} |\n" for status in sorted(words))
    return (
        "\n## Errors\n\nAn error is a [Problem](#shape-problem), as in RFC 9457.\n\n"
        f"| status | meaning |\n|---|---|\n{rows}"
    )


def _operation(method: str, path: str, one: dict[str, Any]) -> str:
    parts = [f"\n## {method} {_short(path)} {{ #{_anchor(one)} }}\n\n{one['summary']}\n"]
    parts.append(f"\n- Path: `{path}`\n")
    if "requestBody" in one:
        kinds = one["requestBody"]["content"]
        schema = _type(kinds["application/json"]["schema"])
        others = [f"`{kind}`" for kind in kinds if kind != "application/json"]
        files = f", or the file of a picture ({', '.join(others)})" if others else ""
        parts.append(f"- Body: {schema}{files}\n")
    (status, answer), *_ = one["responses"].items()
    (kind, content), *_ = answer["content"].items()
    shape = _type(content["schema"]) if "schema" in content else f"`{kind}`"
    parts.append(f"- Answer: {status}, {shape}\n")
    usual = {*COMMON_ERRORS, *(BODY_ERRORS if "requestBody" in one else ())}
    if errors := [s for s in one["responses"] if int(s) >= 400 and int(s) not in usual]:
        parts.append(f"- May also answer {', '.join(errors)}\n")
    if one.get("parameters"):
        parts.append("\n| parameter | type | meaning |\n|---|---|---|\n")
        for param in one["parameters"]:
            name = f"`{param['name']}`" + ("" if param["required"] else "?")
            parts.append(
                f"| {name} | {param['in']}: {_type(param['schema'])} "
                f"| {param.get('description', '')} |\n"
            )
    return "".join(parts)


def _shape(name: str, schema: dict[str, Any]) -> str:
    head = f"\n### {name} {{ #shape-{name.lower()} }}\n\n"
    if "properties" not in schema:
        return f"{head}An object whose members are not fixed.\n"
    if not schema["properties"]:
        return f"{head}An object without members.\n"
    needed = schema.get("required", [])
    rows = [
        f"| `{member}`{'' if member in needed else '?'} | {_type(one)} "
        f"| {one.get('description', '')} |\n"
        for member, one in schema["properties"].items()
    ]
    return f"{head}| member | type | meaning |\n|---|---|---|\n{''.join(rows)}"


def _type(schema: dict[str, Any]) -> str:
    """Describe a schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#shape-{name.lower()})"
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(_type(one) for one in schema.get("anyOf", schema.get("oneOf")))
    if "enum" in schema:
        return " / ".join(f"`{one}`" for one in schema["enum"])
    kinds = schema.get("type", "anything")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return " or ".join(_plain(kind, schema) for kind in kinds)


def _plain(kind: str, schema: dict[str, Any]) -> str:
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}{_limits(schema)}"
    if kind == "object":
        members = schema.get("properties", {})
        if members:
            return "{" + ", ".join(f"`{name}`: {_type(one)}" for name, one in members.items()) + "}"
        further = schema.get("additionalProperties")
        return f"object of {_type(further)}" if isinstance(further, dict) else "object"
    word = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    return word.get(kind, kind) + (_limits(schema) if kind in ("integer", "number") else "")


def _limits(schema: dict[str, Any]) -> str:
    if "maxItems" in schema:
        return f", at most {schema['maxItems']:,}"
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    most = schema.get("maximum")
    above = "above " if "exclusiveMinimum" in schema else ""
    if least is not None and most is not None and most < 2**53:
        return f", {above}{least} to {most:,}"
    return f", {above}{least} or more" if least is not None else ""


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
