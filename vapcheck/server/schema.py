"""What a field of a kind may hold: names and types, of built-in kinds and of CRDs alike.

Built-in kinds are those of one minor of Kubernetes: the files in kinds/ have the newest, and kinds/1.33.json
and the like what differs from it there, as a JSON merge patch (RFC 7386) by package. Parts are made when they
are asked for: a Pod has thousands of fields and a policy touches ten. Nothing here judges a value.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from vapcheck.server.minors import NEWEST

_DATA = Path(__file__).parent / "kinds"
DROPPED = "~"
"""Before the type of a field in the data files: see `Schema.dropped`."""
ABSENT: Final = object()
"""The default of a field that has none."""


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One type. Two of the same built-in definition are the same object."""

    type: str = ""
    """array, boolean, integer, number, object, string, or "" for anything (also for int-or-string)."""
    format: str = ""
    """Of a string: date-time, micro-time or byte; of an integer: int32 where it has no more bits; for a CRD
    whatever it says."""
    name: str = ""
    """The definition, as io.k8s.api.core.v1.Container; empty where it has no name."""
    minor: str = field(default=NEWEST, repr=False)
    """Of a definition: the minor of Kubernetes that it is from."""
    dropped: bool = False
    """Of a field: whether the server reads it and drops it, as its feature gate is off by default in this
    minor."""
    properties: Mapping[str, Schema] = field(default_factory=dict, repr=False)
    items: Schema | None = field(default=None, repr=False)
    """Of a list: what is in it."""
    values: Schema | None = field(default=None, repr=False)
    """Of an object with any keys: what they hold."""
    quantity: bool = False
    int_or_string: bool = False
    preserve_unknown: bool = False
    """Whether fields that are not named here are kept."""
    nullable: bool = False
    default: Any = field(default=ABSENT, repr=False)
    """What the server puts in when the field is missing (CRDs); ABSENT for nothing."""
    presence: str = ""
    """Of a built-in field, how the server writes it: "" left out when empty, "?" when null only; "!" always
    there, with its zero value; "*" always there, null if need be."""


_SCALARS: Final = {
    "string": Schema("string"),
    "integer": Schema("integer"),
    "int32": Schema("integer", "int32"),
    "number": Schema("number"),
    "boolean": Schema("boolean"),
    "bytes": Schema("string", "byte"),
    "time": Schema("string", "date-time"),
    "micro-time": Schema("string", "micro-time"),
    "quantity": Schema("string", quantity=True),
    "int-or-string": Schema(format="int32", int_or_string=True),
    "any": Schema(preserve_unknown=True),
}
_MODULES: Final = {
    "meta.": "io.k8s.apimachinery.pkg.apis.",
    "apiextensions.": "io.k8s.apiextensions-apiserver.pkg.apis.",
    "apiregistration.": "io.k8s.kube-aggregator.pkg.apis.",
}


class _Fields(Mapping[str, Schema]):
    """The fields of a built-in definition, or of a part of a CRD, made one by one."""

    __slots__ = ("_made", "_make", "_raw")

    def __init__(self, raw: Mapping[str, Any], make: Any) -> None:
        self._raw, self._make = raw, make
        self._made: dict[str, Schema] = {}

    def __getitem__(self, key: str) -> Schema:
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._make(self._raw[key])
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._raw

    def __iter__(self) -> Any:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)


def of_minor(name: str, minor: str) -> Any:
    """The content of kinds/NAME.json as it is in that minor; {} where only other minors have the file."""
    path = _DATA / f"{name}.json"
    newest = json.loads(path.read_bytes()) if path.exists() else {}
    return merged(newest, differences(minor).get(name, {}))


@functools.cache
def differences(minor: str) -> dict[str, Any]:
    """What differs in that minor from the newest, by file."""
    if minor == NEWEST:
        return {}
    found: dict[str, Any] = json.loads((_DATA / f"{minor}.json").read_bytes())
    return found


def merged(value: Any, patch: Any) -> Any:
    """`value` after a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    out = dict(value) if isinstance(value, dict) else {}
    for key, part in patch.items():
        if part is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), part)
    return out


@functools.cache
def _package(name: str, minor: str) -> dict[str, dict[str, str]]:
    """The types of one Go package, `core.v1`."""
    found: dict[str, dict[str, str]] = of_minor(name, minor)
    return found


@functools.cache
def builtin(reference: str, minor: str = NEWEST) -> Schema:
    """The definition `core.v1.PodSpec` of the data files."""
    package, _, name = reference.rpartition(".")
    fields = _package(package, minor)[name]
    module = next((path for prefix, path in _MODULES.items() if package.startswith(prefix)), "io.k8s.api.")
    properties = _Fields(fields, lambda text: _field(text, package, minor))
    return Schema("object", name=module + reference, minor=minor, properties=properties)


@functools.cache
def _field(text: str, package: str, minor: str) -> Schema:
    """A field of a definition in `package`, as the data files write it."""
    if text.startswith(DROPPED):
        return replace(_field(text.removeprefix(DROPPED), package, minor), dropped=True)
    presence = text[0] if text[0] in "?!*" else ""
    kind = text[len(presence) :]
    if presence:
        return replace(_field(kind, package, minor), presence=presence)
    if kind.startswith("[]"):
        return Schema("array", items=_field(kind[2:], package, minor))
    if kind.startswith("{}"):
        return Schema("object", values=_field(kind[2:], package, minor))
    return _SCALARS.get(kind) or builtin(kind if "." in kind else f"{package}.{kind}", minor)


def of_crd(raw: Mapping[str, Any], *, preserve: bool = False, top: bool = False) -> Schema:
    """The schema that a CRD gives as openAPIV3Schema; `top` is the object's own, which has metadata."""
    kind = raw.get("type") or ""
    preserve = preserve or bool(raw.get("x-kubernetes-preserve-unknown-fields"))
    properties: Mapping[str, Any] = raw.get("properties") or {}
    made: Mapping[str, Schema] = _Fields(properties, of_crd)
    if top or raw.get("x-kubernetes-embedded-resource"):
        metadata = {
            "apiVersion": _SCALARS["string"],
            "kind": _SCALARS["string"],
            "metadata": builtin("meta.v1.ObjectMeta"),
        }
        made = {**{name: made[name] for name in made}, **metadata}
    extra = raw.get("additionalProperties")
    return Schema(
        type=kind if isinstance(kind, str) else "",
        format=raw.get("format") or "",
        properties=made,
        items=of_crd(raw["items"]) if isinstance(raw.get("items"), dict) else None,
        values=of_crd(extra) if isinstance(extra, dict) else (_SCALARS["any"] if extra else None),
        int_or_string=bool(raw.get("x-kubernetes-int-or-string")),
        preserve_unknown=preserve,
        nullable=bool(raw.get("nullable")),
        default=raw.get("default", ABSENT),
    )
