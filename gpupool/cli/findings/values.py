"""Values that an expression read, as the outputs show them: as JSON or as CEL writes them.

Only formats values; the engine decides which of them are shown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

LONGEST = 2_000
"""Characters of a value that machines get; a ConfigMap alone may have a million."""
_FUNCTIONS = {
    "kubernetes.Quantity": "quantity",
    "kubernetes.Semver": "semver",
    "kubernetes.URL": "url",
    "net.IP": "ip",
    "net.CIDR": "cidr",
}
"""CEL types with the function that makes one of a text."""


_quoted = json.JSONEncoder(ensure_ascii=False).encode


class _Written(str):
    """A value that is written as CEL, not as a text in quotes."""

    __slots__ = ()


def json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` as JSON has them. What is longer than `LONGEST` is the beginning of its text, with `...`."""
    return {name: _shortened(_plain(value)) for name, value in values.items()}


def spell(value: Any, width: int) -> str:
    """`value` in one piece of text, as CEL writes it, cut at `width` characters."""
    return _cut(_text(_plain(value)), width)


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return _cut(value, LONGEST)
    if isinstance(value, list | dict):
        text = _text(value)
        return value if len(text) <= LONGEST else _cut(text, LONGEST)
    return value


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _text(value: Any) -> str:
    """What `_plain` made, as text."""
    if isinstance(value, _Written):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)}: {_text(entry)}" for key, entry in value.items()) + "}"
    return _quoted(value)


def _plain(value: Any) -> Any:
    """`value` with nothing in it that JSON has no name for."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _Written(f"double({_quoted(_not_finite(value))})")
    if isinstance(value, Mapping):
        return {_key(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return _Written(_written(value))


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _key(key: Any) -> str:
    from vapcheck.cel.values import from_key

    key = _plain(from_key(key))
    return key if isinstance(key, str) else _text(key)


def _written(value: Any) -> str:
    """A value that only CEL has; one without a text form is shown by its type's name."""
    # Imported where it is needed: most values are plain, and the interpreter is slow to import.
    from vapcheck.cel import times
    from vapcheck.cel.errors import EvaluationError
    from vapcheck.cel.libraries.authorization import Decision
    from vapcheck.cel.values import Duration, Optional, Timestamp, TypeValue, kind

    if isinstance(value, Duration):
        return f"duration({_quoted(times.text(value))})"
    if isinstance(value, Timestamp):
        return f"timestamp({_quoted(times.text(value))})"
    if isinstance(value, bytes):
        return f"b{_quoted(value.decode(errors='backslashreplace'))}"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, Optional):
        return f"optional.of({_text(_plain(value.value))})" if value.present else "optional.none()"
    if isinstance(value, EvaluationError):
        return f"({value})"
    if isinstance(value, Decision):
        said = "error" if value.errored else "allowed" if value.allowed else "not allowed"
        why = value.error or value.reason
        return f"{value.type_name}({said}{': ' if why else ''}{why})"
    name = kind(value)
    return f"{_FUNCTIONS[name]}({_quoted(str(value))})" if name in _FUNCTIONS else name
