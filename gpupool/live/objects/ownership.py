"""Which manager set which field of an object, and what others have added to a manifest's fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.live.objects.changes import MISSING, Path, Step
from gpupool.live.objects.managed_fields import is_key_of, name_of, rows_of


class Ownership:
    """Which manager set which field of an object, from its metadata.managedFields."""

    def __init__(self, live: Mapping[str, Any]) -> None:
        self._live = live
        self._rows = rows_of(live)

    def of(self, path: Path, but: str) -> tuple[str, str]:
        """The manager that set the field last, `but` only if no other has, and when (empty: none)."""
        holders = [row for row in self._rows if self._holds(row, path)]
        others = [row for row in holders if row.get("manager") != but] or holders
        if not others:
            return "", ""
        last = max(others, key=lambda row: str(row.get("time", "")))
        return str(last.get("manager", "")), str(last.get("time", ""))

    def _holds(self, row: Mapping[str, Any], path: Path) -> bool:
        """Whether the field, the list that it is in, or something below it is the manager's."""
        fields: Any = row.get("fieldsV1") or {}
        live: Any = self._live
        for step in path:
            if isinstance(step, int):
                item = live[step] if isinstance(live, list) and step < len(live) else {}
                keys = [key for key in fields if is_key_of(key, item)]
                if not keys:
                    return True  # the list is one value
                fields, live = fields[keys[0]], item
                continue
            if f"f:{step}" not in fields:
                return False
            fields = fields[f"f:{step}"]
            live = live.get(step) if isinstance(live, Mapping) else None
            if not fields or fields == {".": {}}:
                return True
        return True

    def added(self, body: Mapping[str, Any], ours: frozenset[str]) -> Iterator[tuple[Path, str]]:
        """Fields beside those of the manifest `body` that managers other than `ours` have set, with who."""
        seen = set()
        for row in self._rows:
            manager = str(row.get("manager"))
            if manager in ours:
                continue
            for path in _beside(row.get("fieldsV1") or {}, body, self._live, ()):
                if path not in seen:
                    seen.add(path)
                    yield path, manager


def _beside(fields: Mapping[str, Any], body: Any, live: Any, path: Path) -> Iterator[Path]:
    """Paths in `fields` (fieldsV1) that `body` does not have; metadata and status are not compared."""
    for key, inner in fields.items():
        if key == "." or (not path and key in ("f:metadata", "f:status")):
            continue
        step, mine, there = _step(key, body, live)
        if step is None or there is MISSING:
            continue
        if mine is MISSING:
            yield (*path, step)
        elif inner:
            yield from _beside(inner, mine, there, (*path, step))


def _step(key: str, body: Any, live: Any) -> tuple[Step | None, Any, Any]:
    """The step that a key of fieldsV1 stands for, and what is there in the manifest and in the object."""
    if key.startswith("f:"):
        name = key[2:]
        mine = body.get(name, MISSING) if isinstance(body, Mapping) else MISSING
        return name, mine, live.get(name, MISSING) if isinstance(live, Mapping) else MISSING
    for place, item in enumerate(live if isinstance(live, list) else ()):
        if is_key_of(key, item):
            items = body if isinstance(body, list) else []
            return place, next((row for row in items if name_of(row) == name_of(item)), MISSING), item
    return None, MISSING, MISSING
