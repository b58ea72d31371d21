"""The result of a repartition: how it ended, which node has which shape, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpupool.findings.json_output import JsonObject, Number, read
from gpupool.live.repartition.order import Estimate
from gpupool.live.repartition.shapes import LiveNode
from gpupool.live.repartition.steps import Task
from gpupool.live.repartition.verify import missing


class RepartitionStatus(StrEnum):
    """How a run ended."""

    nothing = "nothing to do"
    planned = "planned"
    done = "done"
    rolled_back = "rolled back"
    stopped = "stopped"
    """A node failed; it was given back in its old shape, or is lost."""
    shut = "window closed"
    interrupted = "interrupted"

    @property
    def succeeded(self) -> bool:
        return self in (
            RepartitionStatus.nothing,
            RepartitionStatus.planned,
            RepartitionStatus.done,
            RepartitionStatus.rolled_back,
        )


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node at the end of a run."""

    node: str
    shape: str
    """What it offers."""
    state: str
    """new, old, or what is wrong with it."""


@dataclass(frozen=True, slots=True)
class RepartitionResult:
    environment: str
    pool: str
    status: RepartitionStatus
    rows: tuple[NodeRow, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes about what happened, and what to do next."""
    estimate: Estimate | None = None
    """Of a dry run."""

    def as_dict(self) -> dict[str, Any]:
        """The result as `--format json` promises it."""
        estimate = {} if self.estimate is None else _EstimateJson.of(self.estimate)
        return _RepartitionJson.of(self) | estimate


class _RowJson(JsonObject):
    node: str
    offers: str = read("shape")
    state: str


class _RepartitionJson(JsonObject):
    environment: str
    pool: str
    status: RepartitionStatus
    nodes: list[_RowJson] = read("rows")
    notes: list[str]


class _NodeEstimateJson(JsonObject):
    node: str
    batch: int
    jobs: int
    wait_seconds: Number | None
    change_seconds: Number


class _EstimateJson(JsonObject):
    order: list[_NodeEstimateJson] = read("nodes")
    expected_seconds: Number = read("seconds")
    open_end: bool


def rows(nodes: Sequence[LiveNode], task: Task) -> tuple[NodeRow, ...]:
    """Every node with what it has become."""
    return tuple(
        NodeRow(node.name, str(node.shape()), _state(node, task))
        for node in sorted(nodes, key=lambda one: task.order.index(one.name))
    )


def _state(node: LiveNode, task: Task) -> str:
    new, old = task.new[node.name], task.old[node.name]
    cordoned = ", cordoned" if node.cordoned else ""
    if missing(node, new) is None:
        return f"new{cordoned}"
    if missing(node, old, strict=False) is None:
        said = "; the MIG manager reports failed" if node.mig_state == "failed" else ""
        return f"old{cordoned}{said}"
    wrong = missing(node, new if node.has_labels_of(new) else old, strict=False)
    return f"{'new' if node.has_labels_of(new) else 'old'}{cordoned}; {wrong}"
