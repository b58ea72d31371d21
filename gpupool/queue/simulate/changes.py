"""One change at a time of an environment file: what `gpupool recommend` tries.

A change is a field and its new value, set in the text itself, so that comments stay and the difference is the
patch. Reservations are not among them: what a commitment costs, and for how long, no file says.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.environment.plan.model import Plan, Pool
from gpupool.environment.sharing import maximal_layouts
from gpupool.environment.yaml_edit import Text, flow_text

Loc = tuple[str | int, ...]
MOST_LAYOUTS = 24
"""Of one pool. An H100 has some hundred; those without variants (+me, +gfx, -me) are looked at."""
REPLICAS = (2, 3, 4, 6, 8, 10, 16)


@dataclass(frozen=True, slots=True)
class FileChange:
    """One field of one file."""

    kind: str
    """replicas, layout, max, warm, spot, grant or borrowing."""
    of: str
    """The pool that it is about."""
    field: str
    """As the docs name it: pools[models].sharing.layout."""
    loc: Loc
    value: Any
    before: Any
    """None where the file does not say it."""


def changes(plan: Plan, data: Mapping[str, Any]) -> Iterator[FileChange]:
    """All of them. `data`: the file as plain values."""
    for index, written in enumerate(data["pools"]):
        pool = plan.pool(written["name"])
        for kind, path, value in _of_pool(pool, written):
            before = _at(written, path)
            if before != value:
                field = f"pools[{pool.name}].{'.'.join(path)}"
                yield FileChange(kind, pool.name, field, ("pools", index, *path), value, before)
    for index, written in enumerate(data.get("tenants", ())):
        for name, grant in written.get("pools", {}).items():
            pool = plan.pool(name)
            for kind, key, value in _of_grant(pool, grant):
                loc = ("tenants", index, "pools", name, key)
                field = f"tenants[{written['name']}].pools.{name}.{key}"
                if grant.get(key) != value:
                    yield FileChange(kind, name, field, loc, value, grant.get(key))


def _at(data: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _of_pool(pool: Pool, written: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    sharing, nodes = written.get("sharing", {}), written.get("nodes", {})
    if "replicas" in sharing:
        yield from (("replicas", ("sharing", "replicas"), count) for count in REPLICAS)
    if "layout" in sharing:
        yield from (("layout", ("sharing", "layout"), layout) for layout in _layouts(pool))
    for name in ("max", "maxGpus"):
        if name in nodes:
            steps = {nodes[name] + step for step in (-2, -1, 1, 2)}
            steps |= {nodes[name] // 2, nodes[name] * 2}
            yield from (("max", ("nodes", name), count) for count in sorted(steps) if count > 0)
    if pool.capacities:
        yield from (("warm", ("nodes", "warm"), count) for count in range(min(4, pool.nodes_max + 1)))
        if "capacity" not in nodes and "reserved" not in nodes:
            yield from (("spot", ("nodes", "spotShare"), share) for share in (0.0, 0.5, 0.75, 1.0))


def _layouts(pool: Pool) -> list[dict[str, int]]:
    plain = [
        layout for layout in maximal_layouts(pool.gpu) if not any(set("+-") & {*name} for name in layout)
    ]
    return plain[:MOST_LAYOUTS]


def _of_grant(pool: Pool, grant: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for key, most in (("gpus", pool.gpus_max), ("slices", sum(pool.slices_max.values()))):
        if key in grant:
            for count in sorted({grant[key] * 2, grant[key] * 3 // 2, most}):
                if grant[key] < count <= most:
                    yield "grant", key, count
            if grant[key] < most:
                yield "borrowing", "upTo", most


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file with one change."""

    text: str
    patch: str
    """A unified difference."""


def changed(file: str, text: str, change: FileChange) -> ChangedFile:
    """The text with the change; `file` is its name in the patch. Raises SharedValueError where the value
    comes from an alias."""
    edited = Text(text)
    edited.set(change.loc, flow_text(change.value), after=lambda _: True)
    lines = difflib.unified_diff(
        text.splitlines(keepends=True), edited.text.splitlines(keepends=True), file, file, n=1
    )
    return ChangedFile(edited.text, "".join(lines))
