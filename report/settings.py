"""What differs in an environment file outside of its pools and tenants, setting by setting.

Compares what is written, defaults filled in, so that a section from which nothing is generated shows up too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.changes.fields import differing
from gpupool.changes.model import FieldChange
from gpupool.spec import Environment

_ELSEWHERE = {"apiVersion", "kind", "metadata", "pools", "tenants"}
"""Sections told by other parts of a report, or read by nobody."""
_APART = "policies.waivers"
"""A setting that a report has a part for."""
_LONG = 160


def setting_changes(before: Environment | None, after: Environment | None) -> tuple[FieldChange, ...]:
    """Settings that differ, by their path in the file; nothing where one of the states is not there."""
    if before is None or after is None:
        return ()
    return differing(dict(_flat(before)), dict(_flat(after)))


def _flat(environment: Environment) -> Iterator[tuple[str, str]]:
    for section, value in environment.model_dump(by_alias=True, mode="json").items():
        if section not in _ELSEWHERE:
            yield from _leaves(section, value)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if value is None or value in ([], {}) or path == _APART:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}", item)
    elif isinstance(value, list) and all(isinstance(item, Mapping) and "name" in item for item in value):
        for item in value:
            rest = {key: each for key, each in item.items() if key != "name"}
            yield from _leaves(f"{path}[{item['name']}]", rest)
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield path, text if len(text) <= _LONG else text[: _LONG - 3] + "..."
