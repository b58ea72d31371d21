"""Values to YAML text that every reader understands alike: stable bytes, and quotes wherever readers differ.

YAML libraries write `y`, `1e3` or `0o17` without quotes, and kubectl then reads truth values and numbers
(sigs.k8s.io/yaml follows YAML 1.1). Here a string goes plain only where no reader could take it for
anything else. Of YAML only block mappings and lists are used, literal blocks, and strings in double quotes
as in JSON; writing this subset here is shorter, and three times faster, than configuring a library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*")
"""Starts with a letter or slash, so it is not a number, date or indicator."""
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_BLOCK = re.compile(r"[!-~][ -~]*\n([ -~]*\n)*")
"""Lines of printable ASCII, which a literal block keeps as they are."""
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""What JSON lets stand but YAML ends a line at, drops or refuses."""
_KEY_MAX = 1000
"""A key that stands before its colon has at most 1024 characters (YAML 1.2.2, 7.4)."""


def yaml_text(value: Any) -> str:
    """`value` as one YAML document. Keys keep their order; no line is folded. Raises TypeError for anything
    but mappings, lists, text, numbers, truth values and None."""
    lines = list[str]()
    if isinstance(value, Mapping | list | tuple) and value:
        _block(value, "", "", lines)
    else:
        lines.append(_inline(value, ""))
    return "\n".join(lines) + "\n"


def _block(value: Any, first: str, indent: str, lines: list[str]) -> None:
    """Lines of a mapping or list that is not empty. `first` goes before its first line instead of `indent`:
    the dash of the list item that it is."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            written = _string(key)
            head = f"{first}{written}:" if len(written) < _KEY_MAX else f"{first}? {written}\n{indent}:"
            if isinstance(inner, Mapping) and inner:
                lines.append(head)
                _block(inner, f"{indent}  ", f"{indent}  ", lines)
            elif isinstance(inner, list | tuple) and inner:
                lines.append(head)
                _block(inner, indent, indent, lines)
            else:
                lines.append(f"{head} {_inline(inner, indent)}")
            first = indent
    else:
        for inner in value:
            if isinstance(inner, Mapping | list | tuple) and inner:
                _block(inner, f"{first}- ", f"{indent}  ", lines)
            else:
                lines.append(f"{first}- {_inline(inner, indent)}")
            first = indent


def _inline(value: Any, indent: str) -> str:
    """The text after a key or dash."""
    if isinstance(value, str):
        if "\n" in value and _BLOCK.fullmatch(value):
            return _literal(value, indent)
        return _string(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    if value is None or isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, float):
        # YAML 1.1 sees a number in 1.0e-08, and text in 1e-08.
        text = json.dumps(value, allow_nan=False)
        return text if "." in text else text.replace("e", ".0e")
    raise TypeError(f"{value!r} has no place in a manifest")


def _literal(value: str, indent: str) -> str:
    lines = value[:-1].split("\n")
    # With the keep indicator a reader keeps empty lines at the end, which it would otherwise drop.
    head = "|+" if value.endswith("\n\n") else "|"
    return "\n".join([head, *(f"{indent}  {line}" if line else "" for line in lines)])


def _string(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
