"""Helm values of two sources as one. It must not know any chart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` merged into `values` as Helm does it, mapping by mapping; anything else replaces."""
    result = dict(values)
    for key, value in over.items():
        inner = result.get(key)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        result[key] = merged(inner, value) if both else value  # type: ignore[arg-type]
    return result


def stated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without the keys whose value is null or an empty text: a chart writes nothing after such a key, and the
    API refuses nothing in place of a mapping or one of several words."""
    return {
        key: stated(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value not in (None, "")
    }
