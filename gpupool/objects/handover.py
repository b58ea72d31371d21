"""Who owns the fields of an object after another tool takes over its delivery. Pure: it sees no cluster.

A tool that applies deletes only what it alone owns: a key that its file loses stays where the tool before it
still owns the key. So the next one gets all that the others own, keys that the file has lost already among
it, and takes those away when it applies next (Kubernetes 1.36, server-side apply: merge strategy).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

Row = Mapping[str, Any]


def handed_over(rows: Sequence[Row], others: frozenset[str], manager: str) -> list[Row] | None:
    """metadata.managedFields in which `manager` owns, as one that applies, what any of `others` does; None
    where they own nothing. Rows of the status and of everybody else stay as they are."""
    moved = [row for row in rows if row.get("manager") in others and not row.get("subresource")]
    if not moved:
        return None
    stay = [row for row in rows if row not in moved]
    # Of several versions of the kind an object has a row each.
    applied = {
        str(row.get("apiVersion")): deepcopy(dict(row))
        for row in stay
        if row.get("manager") == manager and row.get("operation") == "Apply" and not row.get("subresource")
    }
    kept = [row for row in stay if row not in applied.values()]
    for row in moved:
        version = str(row.get("apiVersion"))
        own = applied.setdefault(version, {**row, "manager": manager, "operation": "Apply", "fieldsV1": {}})
        own["fieldsV1"] = _union(own["fieldsV1"], row.get("fieldsV1") or {})
    return [*kept, *applied.values()]


def _union(fields: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Both trees of fieldsV1 as one."""
    both = {key: _union(fields.get(key, {}), more.get(key, {})) for key in more}
    return {**fields, **both}
