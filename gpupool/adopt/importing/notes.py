"""What the file of an imported cluster lacks although its own file had it, and which environment owns the
cluster.

Descriptions, weights and the like are in no object. Where the cluster keeps its file they are listed one by
one; where it does not, as a whole. Pure: judges what was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from gpupool.adopt.convert.leftovers import Leftover
from gpupool.findings import Category
from gpupool.live.cluster.snapshot import Object
from gpupool.live.objects.owner import environment_of

_UNSEEN = "descriptions, weights, budgets, fallbackTo, preemptible, projects, prices and limits in the queue"
_BY_NAME = frozenset({"pools", "tenants", "priorities"})
_SPREAD = "pools"
"""Of a tenant: the cluster has the sum only, which the file spreads in its own way."""
_SHOWN = 60
"""Characters of a value that are shown."""


def owners(objects: Sequence[Object]) -> list[str]:
    """Names of the environments whose objects these are."""
    return sorted(set(map(environment_of, objects)) - {""})


def notes(
    where: str, name: str, owned_by: Sequence[str], kept: str | None, written: str
) -> Iterator[Leftover]:
    """Notes about a file `written` for environment `name` from the objects of `owned_by`; `kept` is
    the newest file that the cluster keeps."""
    if not owned_by:
        return
    owner = owned_by[0] if name not in owned_by else name
    reads = f"`gpupool import {owner}` reads the file stored in the cluster"
    if owner != name:
        owners = " and ".join(owned_by)
        why = f"the cluster's objects belong to environment {owners}, so {name} must not take them over"
        yield _note(where, f"environment {owner}", "", "", why, reads if kept else f"import it as {owner}")
    lost = list(_lost(kept, written)) if kept else []
    for path, value in lost:
        shown = json.dumps(value, ensure_ascii=False, default=str)
        shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
        why = "no object shows it, but the file stored in the cluster has it"
        remediation = reads if owner != name else "write it, or import without --derived"
        yield _note(where, f"environment {owner}", path, shown, why, remediation)
    if not kept:
        why = f"no object shows {_UNSEEN}; defaults were written"
        yield _note(where, f"environment {owner}", "", "", why, "complete the file")


def _note(where: str, thing: str, path: str, value: str, what: str, remediation: str) -> Leftover:
    return Leftover(
        category=Category.assumed,
        file=where,
        object=thing,
        path=path,
        value=value,
        what=what,
        remediation=remediation,
    )


def _lost(kept: str, written: str) -> Iterator[tuple[str, Any]]:
    """Fields of one file that the other does not have, with their values."""
    try:
        before, after = yaml.safe_load(kept), yaml.safe_load(written)
    except yaml.YAMLError:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _missing(before, after, "")


def _missing(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in before.items():
        place = f"{path}.{key}" if path else str(key)
        other = after.get(key)
        if key == _SPREAD and path.startswith("tenants["):
            continue
        if not path and key in _BY_NAME:
            named = {row.get("name"): row for row in other or () if isinstance(row, Mapping)}
            for row in value or ():
                if row.get("name") in named:
                    yield from _missing(row, named[row["name"]], f"{key}[{row['name']}]")
        elif isinstance(value, Mapping) and isinstance(other, Mapping):
            yield from _missing(value, other, place)
        elif key not in after:
            yield place, value
