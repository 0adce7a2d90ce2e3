"""Generate src/prototag/client.py from the OpenAPI document of the service.

    python -m tools.http_client

The head of the file, which sends requests, is tools/http_client_head.txt. A test compares the
generated file with what this module returns.
"""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from prototag.service.app import GROUPS
from prototag.service.openapi import document

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "src" / "prototag" / "client.py"
HEAD = Path(__file__).with_name("http_client_head.txt")
PREFIX = "/api/v1"
OTHER_PROGRAMS = "Other programs"  # their operations are for those programs only
SOURCES = ("image", "path")  # members of a body that name its picture
FOR_BROWSERS = ("library",)  # parameters that the service ignores
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


class _Types:
    """Names of types, and the ``TypedDict`` classes of the objects that they use."""

    def __init__(self, components: dict[str, Any]) -> None:
        self.components = components
        self.classes: dict[str, str] = {}

    def name(self, schema: dict[str, Any], inside: str, *, given: bool = False) -> str:
        """Return the type of a value; ``given`` if it is an argument, which may be more general."""
        if "$ref" in schema:
            component = schema["$ref"].rpartition("/")[2]
            return self._object(component, self.components[component])
        if "anyOf" in schema:
            return " | ".join(self.name(one, inside, given=given) for one in schema["anyOf"])
        if "enum" in schema:
            return f"Literal[{', '.join(repr(one) for one in schema['enum'])}]"
        kinds = schema.get("type", "any")
        names = [
            self._of_kind(kind, schema, inside, given)
            for kind in (kinds if isinstance(kinds, list) else [kinds])
        ]
        return " | ".join(names)

    def _of_kind(self, kind: str, schema: dict[str, Any], inside: str, given: bool) -> str:
        if kind == "array":
            item = self.name(schema["items"], _singular(inside), given=given)
            return f"{'Sequence' if given else 'list'}[{item}]"
        if kind == "object":
            if "properties" in schema:
                return self._object(inside, schema)
            values = schema.get("additionalProperties")
            item = self.name(values, inside) if isinstance(values, dict) else "Any"
            return f"dict[str, {item}]"
        if kind == "string" and schema.get("contentEncoding") == "base64":
            return "PictureFile"
        return {"null": "None", "any": "Any"}.get(kind) or SCALARS[kind]

    def _object(self, name: str, schema: dict[str, Any]) -> str:
        if name not in self.classes:
            self.classes[name] = ""  # against recursion
            lines = [f"class {name}(TypedDict):", f'    """{_article(name)} of the API."""', ""]
            for member, one in schema.get("properties", {}).items():
                kind = self.name(one, name + member.title().replace("_", ""))
                if member not in schema.get("required", ()):
                    kind = f"NotRequired[{kind}]"
                lines += [f"    {member}: {kind}", *_comment(one.get("description"))]
            self.classes[name] = "\n".join(lines)
        return name


def _article(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return f"Object ``{words}``"


def _singular(name: str) -> str:
    return name[:-1] if name.endswith("s") else f"{name}Item"


def _comment(text: str | None) -> list[str]:
    """Return the description of a member as a docstring below it."""
    if not text:
        return []
    return textwrap.wrap(f'"""{text}"""', 92, initial_indent="    ", subsequent_indent="    ")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


class _Argument:
    """An argument of a method, from a parameter or from a member of the body."""

    def __init__(self, name: str, kind: str, required: bool, description: str, place: str) -> None:
        self.name = f"{name}_" if keyword.iskeyword(name) else name
        self.key = name
        self.kind = kind
        self.required = required
        self.description = description
        self.place = place  # path, query or body

    def signature(self) -> str:
        return f"{self.name}: {self.kind}" + ("" if self.required else " | None = None")


def _arguments(one: dict[str, Any], types: _Types) -> list[_Argument]:
    arguments = []
    for parameter in one.get("parameters", ()):
        name = parameter["name"]
        if name in FOR_BROWSERS:
            continue
        kind = types.name(parameter["schema"], name.title(), given=True)
        description = parameter.get("description", "").replace("; may be repeated", "")
        required = parameter["required"]
        arguments.append(_Argument(name, kind, required, description, parameter["in"]))
    body = _body(one, types)
    taken = {argument.name for argument in arguments}
    for name, schema in body.get("properties", {}).items():
        if name in taken or (_is_picture(one) and name in SOURCES):
            continue
        if _is_picture(one) and _singular(name) in taken:
            continue
        kind = types.name(schema, f"Given{name.title()}", given=True)
        required = name in body.get("required", ())
        description = schema.get("description", "")
        arguments.append(_Argument(name, kind, required, description, "body"))
    return sorted(arguments, key=lambda argument: not argument.required)


def _body(one: dict[str, Any], types: _Types) -> dict[str, Any]:
    if "requestBody" not in one:
        return {}
    name = one["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    body: dict[str, Any] = types.components[name]
    return body


def _is_picture(one: dict[str, Any]) -> bool:
    return "multipart/form-data" in one.get("requestBody", {}).get("content", {})


def _method(verb: str, path: str, one: dict[str, Any], types: _Types) -> str:
    arguments = _arguments(one, types)
    (_, answer), *_ = one["responses"].items()
    (media, content), *_ = answer["content"].items()
    positional = [argument for argument in arguments if argument.required]
    optional = [argument for argument in arguments if not argument.required]
    signature = ["self", *(argument.signature() for argument in positional)]
    if _is_picture(one):
        signature += ["picture: PictureFile | None = None", "*", "path: str | None = None"]
    elif optional:
        signature.append("*")
    signature += [argument.signature() for argument in optional]
    returned, call = _call(verb, path, one, arguments, types, media, content)
    doc = _docstring(one, arguments)
    head = f"def {_snake(one['operationId'])}({', '.join(signature)}) -> {returned}:"
    return f"    {head}\n{doc}\n{textwrap.indent(call, '        ')}\n"


def _docstring(one: dict[str, Any], arguments: list[_Argument]) -> str:
    lines = textwrap.wrap(one["summary"], 84)
    described = [argument for argument in arguments if argument.description]
    if _is_picture(one) or described:
        lines += ["", "Parameters", "----------"]
    if _is_picture(one):
        lines += ["picture", "    File to send: its path on this computer, or its bytes."]
        lines += ["path", "    File inside a folder that the service allows, instead of a picture."]
    for argument in described:
        lines.append(argument.name)
        lines += textwrap.wrap(
            argument.description, 84, initial_indent="    ", subsequent_indent="    "
        )
    if len(lines) == 1:
        return f'        """{lines[0]}"""'
    text = "\n".join(lines)
    return textwrap.indent(f'"""{text}\n"""', "        ")


def _call(
    verb: str,
    path: str,
    one: dict[str, Any],
    arguments: list[_Argument],
    types: _Types,
    media: str,
    content: dict[str, Any],
) -> tuple[str, str]:
    """Return the type of an answer and the statements that get it."""
    names = {a.key: a.name for a in arguments if a.place == "path"}
    address = re.sub(r"{(\w+)}", lambda match: f"{{{names[match[1]]}}}", path.removeprefix(PREFIX))
    target = f'f"{address}"' if names else f'"{address}"'
    query = _dictionary([a for a in arguments if a.place == "query"])
    given = [repr(verb), target]
    if _is_picture(one):
        given += [f"query={query}", "body=_source(path)", "picture=picture"]
    else:
        given += [f"query={query}"] if query != "{}" else []
        if "requestBody" in one:
            given.append(f"body={_dictionary([a for a in arguments if a.place == 'body'])}")
    request = ", ".join(given)
    if media == "text/event-stream":
        return "Iterator[Job]", f"return self._stream({request})"
    if "schema" not in content:
        return "bytes", f"return self._read({request})"
    returned = types.name(content["schema"], "Answer")
    if returned == "Nothing":
        return "None", f"self._read({request})"
    return returned, f"answer: {returned} = self._json({request})\nreturn answer"


def _dictionary(arguments: list[_Argument]) -> str:
    return "{" + ", ".join(f'"{a.key}": {_value(a)}' for a in arguments) + "}"


def _value(argument: _Argument) -> str:
    if "PictureFile" in argument.kind:
        return f"_data_urls({argument.name})"
    return argument.name


def source() -> str:
    """Return the text of the client."""
    groups = {name: group for name, group in GROUPS.items() if name != OTHER_PROGRAMS}
    description = document(groups)
    types = _Types(description["components"]["schemas"])
    methods = [
        _method(verb.upper(), path, one, types)
        for path, verbs in description["paths"].items()
        for verb, one in verbs.items()
    ]
    head, client = HEAD.read_text(encoding="utf-8").split("# TYPES\n")
    types.classes.pop("Nothing", None)
    text = "\n\n\n".join([head, *types.classes.values(), client + "\n" + "\n".join(methods)])
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    formatted = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return formatted.stdout


if __name__ == "__main__":
    TARGET.write_text(source(), encoding="utf-8")
