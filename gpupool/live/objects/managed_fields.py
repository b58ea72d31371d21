"""What a live object's metadata.managedFields says, and which values the server keeps as one.

Of a struct that is one value to the server (x-kubernetes-map-type: atomic, as every label selector) or a list
that is one, managedFields names the field and nothing below it: a manager that writes any part owns, and
replaces, all of it. This module does not check who the owners are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


def rows_of(live: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """One row for each manager and operation, those of the status excepted."""
    rows = (live.get("metadata") or {}).get("managedFields") or ()
    return [row for row in rows if not row.get("subresource")]


def managers(live: Mapping[str, Any]) -> frozenset[str]:
    """All managers that have set a field, except of the status."""
    return frozenset(str(row.get("manager")) for row in rows_of(live))


def appliers(live: Mapping[str, Any]) -> frozenset[str]:
    """Those who have applied the object as a whole (server-side apply)."""
    return frozenset(str(row.get("manager")) for row in rows_of(live) if row.get("operation") == "Apply")


def name_of(item: Any) -> str:
    """The key by which the server identifies the items of most lists; empty where there is none."""
    return str(item.get("name", "")) if isinstance(item, Mapping) else ""


def is_key_of(key: str, item: Any) -> bool:
    """Whether a key of fieldsV1 stands for this item of a list."""
    return key.startswith("k:") and f'"{name_of(item)}"' in key


class OwnedFields(NamedTuple):
    """What managers own at one place of an object: a tree of fieldsV1 for each that owns something there."""

    trees: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, live: Mapping[str, Any]) -> OwnedFields:
        """Those of the whole object, its status excepted."""
        return cls(tuple(row.get("fieldsV1") or {} for row in rows_of(live)))

    def below(self, key: str) -> OwnedFields:
        """Those of a field."""
        return self._at(lambda have: have == f"f:{key}")

    def of_item(self, item: Any) -> OwnedFields:
        """Those of an item, in a list whose items the server identifies by name."""
        return self._at(lambda have: is_key_of(have, item))

    def _at(self, matches: Callable[[str], bool]) -> OwnedFields:
        return OwnedFields(tuple(tree[key] for tree in self.trees for key in tree if matches(key)))

    @property
    def one_value(self) -> bool:
        """Whether the value has an owner and no part of it has one. True also of a mapping that everybody has
        left empty, and of plain values."""
        return bool(self.trees) and not any(self.trees)
