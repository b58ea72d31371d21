"""PriorityClasses -> `priorities`, highest first.

Which classes are gpupool's own is seen by their labels and names; levels are in a label of gpupool's, and
else follow from the rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.cluster_objects import ClusterObjects, ours
from gpupool.adopt.convert.spec_words import fits
from gpupool.environment.plan.checks.priorities import LEVELS
from gpupool.environment.plan.model import LEVEL_LABEL, POOL_LABEL
from gpupool.environment.plan.pods import BORROWED_CLASS, WARM_CLASS
from gpupool.environment.spec.environment import QUEUED


def read(cluster: ClusterObjects) -> list[dict[str, Any]]:
    """The priorities of the cluster's PriorityClasses."""
    found: list[tuple[int, Part]] = []
    values = {part.document.name: part.at("value").value for part in cluster.all("PriorityClass")}
    for part in cluster.all("PriorityClass"):
        name = part.document.name
        number = values[name] if isinstance(values[name], int) else None
        first = values.get(name.removesuffix(QUEUED))
        if name.startswith("system-") or name in (WARM_CLASS, BORROWED_CLASS):
            part.of_cluster()
        elif ours(part) and (part.at("metadata", "labels", POOL_LABEL) or _of_queue(name, first, number)):
            part.derived()
        elif number is None or abs(number) > 10**9 or not fits("name", name):
            part.left("gpupool supports names of letters, digits and hyphens, and values up to 1000000000")
        else:
            found.append((number, part))
    found.sort(key=lambda pair: -pair[0])
    rows: list[dict[str, Any]] = []
    for rank, (number, part) in enumerate(found):
        if rows and rows[-1]["value"] == number:
            part.left(f"it has the same value as {rows[-1]['name']}, but gpupool needs different values")
            continue
        rows.append(_priority(part, number, rank, len(found), rows))
    return rows


def _of_queue(name: str, first: object, value: int | None) -> bool:
    """Whether a class of that name and value is the queue's own of a priority whose value is `first`."""
    return name.endswith(QUEUED) and first is not None and first == value


def _priority(
    part: Part, value: int, rank: int, total: int, above: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    part.named()
    part.uses("value", "preemptionPolicy")
    level = part.text("metadata", "labels", LEVEL_LABEL)
    if level not in LEVELS:
        level = LEVELS[min(rank * len(LEVELS) // total, 3)]
        part.note("assumed", f"no object shows its level: {level} was written, from its rank", "correct it")
    if above:  # levels fall with values
        level = LEVELS[max(LEVELS.index(level), LEVELS.index(above[-1]["level"]))]
    row: dict[str, Any] = {"name": part.document.name, "value": value, "level": level}
    if part.word("preemptionPolicy") != "Never":
        row["preempts"] = True
    if text := part.text("description"):
        row["description"] = text
    part.mark_derived_if(False, "globalDefault")
    return row
