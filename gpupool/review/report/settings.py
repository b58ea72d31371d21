"""What differs in an environment file outside of its pools and tenants, setting by setting.

Compares what is written, defaults filled in, so that a section from which nothing is generated shows up too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.environment.plan.changes.fields import differing
from gpupool.environment.plan.changes.model import SettingChange
from gpupool.environment.spec.environment import Environment

_ELSEWHERE = {"apiVersion", "kind", "metadata", "pools", "tenants"}
"""Sections that other parts of a report cover, or that nothing reads."""
_OWN_SECTION = "policies.waivers"
"""Reported in a section of its own."""
_LONG = 160
"""Characters of a value that are shown."""
_BEFORE_DIFFERENCE = 40
"""Characters that are shown before the first one that differs, of values that are cut."""


def setting_changes(before: Environment | None, after: Environment | None) -> tuple[SettingChange, ...]:
    """Settings that differ, by their path in the file; nothing where one of the states is not there."""
    if before is None or after is None:
        return ()
    old, new = dict(_flat(before)), dict(_flat(after))
    field_changes = differing(
        {name: _text(value) for name, value in old.items()}, {n: _text(v) for n, v in new.items()}
    )
    return tuple(
        change
        for field in field_changes
        for change in (
            _items(field.name, old.get(field.name, []), new.get(field.name, []))
            or [
                SettingChange(
                    field.name, _short(field.before, field.after), _short(field.after, field.before)
                )
            ]
        )
    )


def _items(name: str, before: Any, after: Any) -> list[SettingChange]:
    """Items added to and removed from a list; empty if only the order differs, or it is no list."""
    if not (isinstance(before, list) and isinstance(after, list)):
        return []
    old, new = list(map(_text, before)), list(map(_text, after))
    return [
        *(SettingChange(name, _short(item, *new), None) for item in old if item not in new),
        *(SettingChange(name, None, _short(item, *old)) for item in new if item not in old),
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str | None, *others: str | None) -> str | None:
    """`text` cut to `_LONG` characters, among them the first one that differs from each of `others`."""
    if text is None or len(text) <= _LONG:
        return text
    same = max((_same(text, other) for other in others if other is not None), default=0)
    start = same - _BEFORE_DIFFERENCE if same + _BEFORE_DIFFERENCE > _LONG else 0
    shown = text[start:] if start == 0 else "..." + text[start:]
    return shown if len(shown) <= _LONG else shown[: _LONG - 3] + "..."


def _same(one: str, other: str) -> int:
    """How many characters both texts begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _flat(environment: Environment) -> Iterator[tuple[str, Any]]:
    """Path -> value, which is a list or a scalar."""
    for section, value in environment.model_dump(by_alias=True, mode="json").items():
        if section not in _ELSEWHERE:
            yield from _leaves(section, value)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if value is None or value in ([], {}, "") or path == _OWN_SECTION:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}", item)
    elif isinstance(value, list) and all(isinstance(item, Mapping) and "name" in item for item in value):
        for item in value:
            rest = {key: each for key, each in item.items() if key != "name"}
            yield from _leaves(f"{path}[{item['name']}]", rest)
    else:
        yield path, value
