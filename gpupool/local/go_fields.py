"""What decides how Go's encoder writes the fields of API types: pointers, and options of JSON tags; and the
feature gates that the comments name.

Read from the comments, JSON tags and types in the source of a Go package. It handles Go's syntax only as far
as the types of Kubernetes use it, and does not depend on Kubernetes itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gpupool.programs.failures import LocalError

Structs = Mapping[str, Mapping[str, frozenset[str]]]
"""What the source says of each JSON field of each struct: `pointer`, `omitempty`, `omitzero`, `gate:NAME` for
each feature gate without which the server drops it, or none."""

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_BORROWED = re.compile(r"^type (\w+) (?:= )?(v\w+)\.(\w+)$", re.MULTILINE)
_FIELD = re.compile(
    r'((?:^\t//.*\n)*)^\t(?:\w+[ \t]+)?([*\w.\[\]{}]+)[ \t]+`[^`]*?json:"([^"]*)"', re.MULTILINE
)
_GATES = re.compile(r"\+featureGate=([\w,]+)")


def structs_of(folder: Path) -> Structs:
    """The structs in the *.go files of `folder`, and those that it takes over from another version of its
    group. Raises LocalError when there are none."""
    source = "\n".join(path.read_text() for path in sorted(folder.glob("*.go")) if "_test" not in path.name)
    bodies = dict(_STRUCT.findall(source))
    if not bodies:
        raise LocalError(f"{folder}: no Go types; check that the module of this release is present")
    found = {name: _fields(name, bodies) for name in bodies}
    for name, version, theirs in _BORROWED.findall(source):
        if (folder.parent / version).is_dir():
            found |= {name: dict(structs_of(folder.parent / version).get(theirs, {}))}
    return found


def _fields(name: str, bodies: Mapping[str, str]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for comment, type_name, tag in _FIELD.findall(bodies[name]):
        key, *options = tag.split(",")
        if "inline" in options or not key:
            inner = type_name.lstrip("*")
            if inner in bodies:
                found |= _fields(inner, bodies)
        elif key != "-":
            pointer = {"pointer"} if type_name.startswith("*") else set()
            gates = {f"gate:{gate}" for names in _GATES.findall(comment) for gate in names.split(",")}
            found[key] = frozenset({*options, *pointer, *gates})
    return found
