"""Which values of a live object the server keeps as one, read from its metadata.managedFields.

Of a struct that is one value to the server (x-kubernetes-map-type: atomic, as every label selector) or a list
that is one, managedFields names the field and nothing below it: whoever writes any part owns, and replaces,
all of it. Who the owners are is not looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Fields(NamedTuple):
    """What managers own at one place of an object: a tree of fieldsV1 for each that owns something there."""

    trees: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, live: Mapping[str, Any]) -> Fields:
        """Those of the whole object, its status excepted."""
        rows = (live.get("metadata") or {}).get("managedFields") or ()
        return cls(tuple(row.get("fieldsV1") or {} for row in rows if not row.get("subresource")))

    def below(self, key: str) -> Fields:
        """Those of a field."""
        return self._at(lambda have: have == f"f:{key}")

    def of_item(self, item: Any) -> Fields:
        """Those of an item, in a list whose items the server tells apart by name."""
        name = item.get("name") if isinstance(item, Mapping) else None
        return self._at(lambda have: have.startswith("k:") and f'"{name}"' in have)

    def _at(self, matches: Callable[[str], bool]) -> Fields:
        return Fields(tuple(tree[key] for tree in self.trees for key in tree if matches(key)))

    @property
    def one_value(self) -> bool:
        """Whether somebody owns the value and nobody a part of it. True also of a mapping that everybody has
        left empty, and of plain values."""
        return bool(self.trees) and not any(self.trees)
