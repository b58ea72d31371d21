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
