"""What node classes and NodePools say of reserved capacity -> `nodes.reserved` of a pool.

A NodePool bounds all of its nodes, and neither it nor a node class says how many nodes a reservation has, or
until when: only a NodePool for one reservation alone does, by its limit.
"""

from __future__ import annotations

from typing import Any

from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.draft import DraftPool, Values
from gpupool.adopt.convert.karpenter_pools import Fleet
from gpupool.adopt.convert.spec_words import fits

TERMS = "capacityReservationSelectorTerms"
_END = "add `until` if the reservation ends (as a Capacity Block does)"


def _selected(spec: Part) -> list[Values]:
    """What the node class at `spec` selects, as items of `nodes.reserved` without a count."""
    selected: list[Values] = []
    for term in spec.at(TERMS).each():
        id, tags = term.word("id"), term.at("tags").value
        if id and fits("reservation id", id):
            term.uses("id")
            selected.append({"id": id})
        elif isinstance(tags, dict) and tags and all(isinstance(value, str) for value in tags.values()):
            term.at("tags").used()
            selected.append({"tags": dict(tags)})
        for name in ("ownerID", "instanceMatchCriteria"):
            term.at(name).left("gpupool selects reservations by id or tags", "use its id")
    return selected


def of_fleet(fleet: Fleet, node_class: Part | None) -> list[Values]:
    """Those that a fleet may use of the ones that its node class selects."""
    if node_class is None or not fleet.bought.may_be_reserved:
        return []
    ids = fleet.bought.reservations
    return [row for row in _selected(node_class) if not ids or row.get("id") in ids]


def place(pool: DraftPool, fleet: Fleet, nodes: int) -> None:
    """Write what a fleet of so many nodes has reserved to the pool."""
    rows: list[dict[str, Any]] = [{**row, "count": 1} for row in fleet.reservations]
    if fleet.bought.only_reserved and rows:
        rows[0]["count"] = max(1, nodes - len(rows) + 1)
    pool.reserved += rows
    if not fleet.bought.only_reserved or len(rows) > 1:
        counts = ", ".join(str(row["count"]) for row in rows)
        why = f"the number of reserved nodes is unknown: count {counts} was written for {pool.name}"
        fleet.part.note("assumed", why, "correct nodes.reserved")
    fleet.part.note("assumed", f"the end of the reservations of {pool.name} is unknown", _END)
