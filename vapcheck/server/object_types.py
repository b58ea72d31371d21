"""Types of CEL for objects of known kinds, made from their schemas, for the type check.

Only fields whose names occur in the policy are made: no other can be asked for, and a Pod has thousands. It
must not compile expressions (`type_check`).

Differences from how the API server declares types (apiserver/pkg/cel/common/schemas.go, 1.36), each because
the server's type is not what an expression meets when it is evaluated:
- quantities of built-in kinds are strings; the server has no type for them and calls `limits` undefined;
- dates and bytes are strings, as in the JSON that policies see;
- objects that may have any fields (`x-kubernetes-preserve-unknown-fields`, RawExtension) are `dyn`;
- a definition is one type wherever it is used, so `containers + initContainers` is a list of containers;
- a definition within itself (JSONSchemaProps) has its fields at every depth.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from vapcheck.server.schema import Schema

DYN = "dyn"
_SCALARS = {"string": "string", "boolean": "bool", "integer": "int", "number": "double"}
"""CEL's names of OpenAPI's types."""
_CLOSEST = 0.6
"""How similar a field must be to what was written to be suggested (difflib's ratio)."""


@dataclass(slots=True)
class Liberties:
    """What the checker must not be strict about: all objects are maps when an expression is evaluated."""

    alike: dict[str, dict[str, Schema]] = field(default_factory=dict)
    """Definitions that an expression puts side by side (`x ? object.spec : object.spec.template.spec`):
    each is taken for all of them, with the fields of all."""
    loose: set[str] = field(default_factory=set)
    """Definitions whose objects an expression uses as maps (`'x' in object.spec`): they are `dyn`."""

    def unite(self, schemas: Iterable[Schema]) -> None:
        """Treat these definitions as one, together with those that they are already merged with."""
        joined = self.every(schemas)
        self.alike |= dict.fromkeys(joined, joined)

    def loosen(self, schemas: Iterable[Schema]) -> None:
        """Treat objects of these definitions as maps."""
        self.loose |= set(self.every(schemas))

    def every(self, schemas: Iterable[Schema]) -> dict[str, Schema]:
        """These definitions and those that are taken for one with them, by what identifies them."""
        found: dict[str, Schema] = {}
        for schema in schemas:
            # In CRDs, where definitions have no names, the very place is what makes two schemas one.
            identity = schema.name or f"{id(schema):x}"
            found |= self.alike.get(identity, {identity: schema})
        return found


class ObjectTypes:
    """Types for the objects of one policy, with those fields only that `names` has."""

    def __init__(self, prefix: str, names: Collection[str], liberties: Liberties) -> None:
        """`prefix` begins the names of all types."""
        self.table: dict[str, dict[str, str]] = {}
        """By type name the fields and their CEL signatures; grows with `declare`."""
        self._prefix = prefix
        self._names = frozenset(names)
        self._liberties = liberties
        self._definitions: dict[str, dict[str, Schema]] = {}

    def declare(self, schemas: Iterable[Schema]) -> str:
        """The CEL signature of a value that has one of these schemas: an object has the fields of all."""
        distinct = self._liberties.every(schemas)
        kinds = {_kind(schema) for schema in distinct.values()}
        if len(kinds) != 1 or self._liberties.loose & distinct.keys():
            return DYN
        kind = kinds.pop()
        if kind == "object":
            return self._object(distinct)
        if kind in ("array", "map"):
            parts = [part for schema in distinct.values() if (part := schema.items or schema.values)]
            element = self.declare(parts)
            return f"list({element})" if kind == "array" else f"map(string, {element})"
        return kind

    def definitions(self, name: str) -> tuple[Schema, ...]:
        """The definitions that a type stands for; nothing for a type that isn't from here."""
        return tuple(self._definitions.get(name, {}).values())

    def advice(self, wrong: str) -> str:
        """Which field is meant by `wrong`, or which types here do have that field; or nothing."""
        schemas = [schema for name in self._definitions for schema in self.definitions(name)]
        having = sorted({short_name(schema) for schema in schemas if wrong in schema.properties})
        if having:
            return f"it is a field of {' and of '.join(having)}"
        known = sorted({known for schema in schemas for known in schema.properties})
        closest = difflib.get_close_matches(wrong, known, 1, _CLOSEST)
        return f"did you mean {closest[0]!r}?" if closest else ""

    def _object(self, definitions: dict[str, Schema]) -> str:
        plain = self._prefix + "_or_".join(sorted({short_name(schema) for schema in definitions.values()}))
        name, number = plain, 1
        while name in self._definitions and self._definitions[name].keys() != definitions.keys():
            number += 1
            name = f"{plain}_{number}"
        if name not in self._definitions:
            self._definitions[name] = definitions
            fields = self.table[name] = {}
            schemas = definitions.values()
            for known in sorted(self._names & {key for schema in schemas for key in schema.properties}):
                fields[known] = self.declare(s.properties[known] for s in schemas if known in s.properties)
        return name


def _kind(schema: Schema) -> str:
    """`object`, `array`, `map` or the CEL type."""
    if schema.quantity:
        return "string"
    if schema.int_or_string or schema.preserve_unknown:
        return DYN
    if schema.type == "object" or schema.properties:
        if schema.values is not None:
            return "map"
        return "object" if schema.properties else DYN
    return "array" if schema.type == "array" else _SCALARS.get(schema.type, DYN)


def short_name(schema: Schema) -> str:
    """`PodSpec` for the definition io.k8s.api.core.v1.PodSpec; what has no name is `Object`."""
    return "".join(c if c.isalnum() else "_" for c in schema.name.rpartition(".")[2]) or "Object"
