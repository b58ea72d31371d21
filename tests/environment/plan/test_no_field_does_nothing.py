"""Every field of the environment file changes the Plan, an object or a chart's values, in some example.

Fields are those of the schema, found by walking it; each is changed in copies of the examples, to other
values that its type allows, until a change is valid and shows. A choice of which all others are refused does
nothing either, and says so.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpupool.environment.catalog.project import catalog_here
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec import messages
from gpupool.environment.spec.environment import Environment
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.findings import SpecError
from gpupool.generators import generate

ROOT = Path(__file__).parents[3]
EXAMPLES = (
    *sorted(Path(__file__).parent.glob("every-field*.yaml")),
    *sorted((ROOT / "tests" / "golden" / "delivery").glob("*.yaml")),
    *sorted((ROOT / "environments").glob("*.yaml")),
)
ABOUT_THE_FILE = ("apiVersion", "kind", "metadata", "promotion")
"""What the file is and how it is reviewed; the commands that read these have tests of their own."""
PLAIN = ("other", "37m", "9d", "example.com/other", "https://example.com")
"""Texts that many fields take."""
Place = tuple[str, ...]
"""Names of fields; `[]` for the items of a list, `{}` for the values of a mapping."""


def places(model: type[BaseModel], above: Place = ()) -> Iterator[tuple[Place, FieldInfo]]:
    for name, field in model.model_fields.items():
        place = (*above, field.alias or name)
        inner = list(models(field.annotation, place))
        if not inner:
            yield place, field
        for below, kind in inner:
            yield from places(kind, below)


def models(annotation: Any, place: Place) -> Iterator[tuple[Place, type[BaseModel]]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield place, annotation
    origin = get_origin(annotation)
    for argument in get_args(annotation):
        step = ("[]",) if origin is list else ("{}",) if origin is dict else ()
        yield from models(argument, (*place, *step))


FIELDS = {
    ".".join(place): (place, field) for place, field in places(Environment) if place[0] not in ABOUT_THE_FILE
}


@cache
def examples() -> list[tuple[str, dict[str, Any], str]]:
    """(name, data, what it comes to)"""
    return [
        (path.stem, data, outcome(path.stem, data))
        for path in EXAMPLES
        if (data := yaml.safe_load(path.read_text(encoding="utf-8")))
    ]


def outcome(name: str, data: dict[str, Any]) -> str:
    """The Plan, objects and charts' values as text. Raises SpecError."""
    plan = resolve(check_shape(parse_source(f"{name}.yaml", yaml.safe_dump(data).encode())))
    bundle = generate(plan)
    fields = [name for name in plan.__dataclass_fields__ if name not in ("text", "assertion", "monitoring")]
    parts = [repr(getattr(plan, name)) for name in fields]
    # Objects but for the one that holds the file's text.
    parts += [text for manifest in bundle if "kind: Environment" not in (text := repr(manifest.body))]
    parts += [repr(release) for release in bundle.releases]
    checked = plan.assertion
    return "\n".join([*parts, repr(checked and (checked.image, checked.schedule, checked.pushgateway))])


def holders(data: Any, place: Place) -> Iterator[tuple[dict[str, Any], str]]:
    """The mappings that have or could have the field."""
    first, *rest = place
    if first in ("[]", "{}"):
        inner = data if isinstance(data, list) else list(data.values()) if isinstance(data, dict) else []
        for item in inner:
            yield from holders(item, tuple(rest))
    elif isinstance(data, dict) and not rest:
        yield data, first
    elif isinstance(data, dict) and first in data:
        yield from holders(data[first], tuple(rest))


def others(field: FieldInfo, now: Any) -> Iterator[Any]:
    """Values of the field's type other than `now`."""
    hints = (hint for _, hint in messages._forms(field))
    words = [
        word.strip('",') for hint in hints for word in re.split(r",? such as |,? as |, | at | or ", hint)[1:]
    ]
    if isinstance(now, str) and now:
        words += [now[:-1] + ("4" if now[-1] == "5" else "5"), f"{now}2"]
    yield from _of_type(field.annotation, now, [*words, *PLAIN, *_texts()])


@cache
def _texts() -> list[str]:
    """Every text of the examples: names that other fields may refer to."""
    found: dict[str, None] = {}
    waiting: list[Any] = [data for _, data, _ in examples()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += [*value, *value.values()] if isinstance(value, dict) else value
        elif isinstance(value, str):
            found[value] = None
    return [*found, *catalog_here().models]


def _of_type(annotation: Any, now: Any, words: list[str]) -> Iterator[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        yield from (choice for choice in arguments if choice != now)
    elif annotation is bool:
        yield now is not True
    elif annotation in (int, float):
        present = now if isinstance(now, int | float) and not isinstance(now, bool) else 2
        yield from (present + 1, max(1, present - 1), present * 2, 0.5, 1, 0, 443)
    elif annotation is str:
        yield from (word for word in words if word != now)
    elif annotation is date:
        yield date(2098, 1, 1)
    elif annotation is datetime:
        yield datetime(2098, 1, 1, tzinfo=UTC).isoformat().replace("+00:00", "Z")
    elif origin is list:
        yield []
        yield from ([inner] for inner in _of_type(arguments[0], None, words))
        yield from ([inner, *now] for inner in _of_type(arguments[0], None, words) if isinstance(now, list))
    elif origin is dict:
        yield {}
        keys = list(now) if isinstance(now, dict) else []
        yield from ({key: inner} for key in [*keys, "other"] for inner in _of_type(arguments[1], None, words))
    else:
        for argument in arguments:
            yield from _of_type(argument, now, words)
        if not arguments:
            yield from ("other", 7)


def attempts(place: Place, field: FieldInfo) -> Iterator[tuple[str, str, dict[str, Any], Any]]:
    """(example, what it comes to, a copy in which the field is another, its value there): the first value at
    every place, then the second, since a place that refuses one value often refuses them all."""
    waiting = []
    for example, data, before in examples():
        for number, (holder, last) in enumerate(holders(data, place)):
            now = holder.get(last, field.get_default(call_default_factory=True))
            waiting.append((example, data, before, number, others(field, now)))
    while waiting:
        for one in list(waiting):
            example, data, before, number, values = one
            try:
                value = next(values)
            except StopIteration:
                waiting.remove(one)
                continue
            changed = copy.deepcopy(data)
            inner, last = list(holders(changed, place))[number]
            inner[last] = value
            yield example, before, changed, value


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_shows(name: str) -> None:
    place, field = FIELDS[name]
    refused: list[str] = []
    for example, before, changed, value in attempts(place, field):
        try:
            if outcome(example, changed) != before:
                return
            refused.append(f"{example}: {value!r} changes nothing")
        except SpecError as error:
            refused.append(f"{example}: {value!r}: {error.findings[0]}")
    choice = field.annotation is bool or get_origin(field.annotation) is Literal
    if choice and refused and not any(line.endswith("changes nothing") for line in refused):
        return
    pytest.fail("\n".join(refused[-12:]) or "no example has a place for it")
