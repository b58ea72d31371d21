"""docs/reference.md: every field of the environment file, from the models of `gpupool.environment.spec`.

`python -m gpupool.environment.schema.reference docs/reference.md` prints the page; `make schema` writes it,
and a test fails when it is stale. Descriptions are the models' own. Examples are values of the shipped
environments, else of reference.yaml, which also has the units of numbers.

The page itself records since when a field exists: a field that the former page does not list gets UNRELEASED,
which `make release` replaces by the version, as 0.3.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpupool.environment import shipped
from gpupool.environment.spec.environment import Environment
from gpupool.environment.spec.yaml_source import read_source

UNRELEASED = "unreleased"
DATA = Path(__file__).with_name("reference.yaml")
_HEAD = """# Reference of the environment file

Every field of `environments/<name>.yaml`. `make schema` writes this page; it must not be edited. For how the
fields work together, see [Write an environment file](environment-file.md). `[]` stands for each item of a
list, `*` for each key of a mapping. A field without a default and without *required* may be left out.
"""
_PLAIN: Mapping[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    date: "date",
    datetime: "time in UTC",
    Any: "any",
}
_DURATION = re.compile(r"\^\(.*\(s\|m\|h(\|d)?\)\)\+")


@dataclass(frozen=True, slots=True)
class Field:
    path: str
    """As `pools[].nodes.max`."""
    kind: str
    default: str
    unit: str
    description: str
    numeric: bool
    choices: tuple[Any, ...]
    """Values that show a field that no file has: those of a Literal or boolean, else the default."""


def fields() -> tuple[Field, ...]:
    """In the order of the file; variants of one path are one field."""
    units = yaml.safe_load(DATA.read_text(encoding="utf-8"))["units"]
    found: dict[str, Field] = {}
    for path, info in _walk(Environment, ""):
        field = _field(path, info, units)
        if before := found.get(path):
            kinds = dict.fromkeys([*before.kind.split(", "), *field.kind.split(", ")])
            field = replace(before, kind=", ".join(kinds))
        found[path] = field
    return tuple(found.values())


def examples() -> Mapping[str, Any]:
    """Path -> a value that the field may have."""
    found = dict[str, Any]()
    for file in sorted(shipped.folder("environments").glob("*.yaml"), key=lambda file: file.stem != "prod"):
        for path, value in _values(yaml.safe_load(file.read_text(encoding="utf-8")), ""):
            found.setdefault(path, value)
    for path, value in _values(read_source(DATA).data["examples"], ""):
        found.setdefault(path, value)
    return found


def text(former: str) -> str:
    """The page; `former` is the page as it was."""
    since = dict(re.findall(r"^\| `([^`]+)` \|(?:[^|]*\|){3} ([^ |]+) \|", former, re.MULTILINE))
    shown, parts, section = examples(), [_HEAD], ""
    for field in fields():
        name = re.split(r"[.\[]", field.path)[0]
        if name != section:
            section = name
            parts.append(f"\n## {name}\n\n| field | type | default | unit | since | example | meaning |")
            parts.append("\n|---|---|---|---|---|---|---|\n")
        example = shown.get(field.path, field.choices[0] if field.choices else None)
        example = None if field.kind == "object" else example
        cells = (
            *(f"`{field.path}`", field.kind, field.default, field.unit, since.get(field.path, UNRELEASED)),
            *("" if example is None else _code(example), field.description),
        )
        parts.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n")
    return "".join(parts)


def _walk(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, info in model.model_fields.items():
        path = prefix + (info.alias or name)
        yield path, info
        for inner, step in _models(info.annotation, ""):
            yield from _walk(inner, f"{path}{step}.")


def _models(annotation: Any, step: str) -> Iterator[tuple[type[BaseModel], str]]:
    """The models within a type, each with what leads to them: [] or .*"""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, step
    origin = get_origin(annotation)
    for argument in get_args(annotation):
        yield from _models(argument, step + {list: "[]", dict: ".*"}.get(origin, ""))


def _field(path: str, info: FieldInfo, units: Mapping[str, str]) -> Field:
    annotation = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    kind = _kind(annotation)
    default = info.get_default()
    given = (
        not info.is_required() and not isinstance(default, BaseModel) and default not in (None, "", [], {})
    )
    literals = _literals(annotation) or ((default,) if given else ())
    return Field(
        path=path,
        kind=kind,
        default="*required*" if info.is_required() else _code(default) if given else "",
        unit=next((units[key] for key in (path, _last(path)) if key in units), _unit(annotation)),
        description=" ".join((info.description or "").split()),
        numeric=any(word in kind for word in ("integer", "number")),
        choices=tuple(value for value in literals if value != default) or literals,
    )


def _last(path: str) -> str:
    return path.rpartition(".")[2].removesuffix("[]")


def _kind(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, UnionType):
        kinds = dict.fromkeys(_kind(one) for one in arguments if one is not NoneType)
        return " or ".join(kinds)
    if origin is list:
        return f"list of {_kind(arguments[0])}"
    if origin is dict:
        return f"mapping to {_kind(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "object"
    return _PLAIN.get(annotation, "any")


def _literals(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if annotation is bool:
        return (True, False)
    return tuple(value for argument in get_args(annotation) for value in _literals(argument))


def _unit(annotation: Any) -> str:
    """Of durations and amounts of memory, by their pattern."""
    pattern = re.search(r"pattern='([^']*)'", repr(annotation))
    if pattern and (duration := _DURATION.match(pattern[1])):
        return "d, h, m, s" if duration[1] else "h, m, s"
    if pattern and "Never" in pattern[1]:
        return "h, m, s"
    return "Mi, Gi, Ti" if pattern and "(Mi|Gi|Ti)" in pattern[1] else ""


def _values(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if path:
        yield path, value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _values(inner, f"{path}.{key}" if path else str(key))
            if path:
                yield from _values(inner, f"{path}.*")
    elif isinstance(value, list):
        for inner in value:
            yield from _values(inner, f"{path}[]")


def _code(value: Any) -> str:
    """A value as YAML on one line; of a large one what fits."""
    shown = json.dumps(value, default=str, ensure_ascii=False)
    if isinstance(value, str) and not re.fullmatch(r"[\d.]*|true|false|null", value):
        shown = value
    return f"`{shown}`" if len(shown) <= 60 else f"`{shown[:57]}...`"


if __name__ == "__main__":
    print(text(Path(sys.argv[1]).read_text(encoding="utf-8")), end="")
