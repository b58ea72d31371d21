"""The result of a repartition: how it ended, which node has which shape, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpupool.repartition.order import Estimate
from gpupool.repartition.shapes import Node
from gpupool.repartition.steps import Task
from gpupool.repartition.verify import missing


class Status(StrEnum):
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
    def fine(self) -> bool:
        return self in (Status.nothing, Status.planned, Status.done, Status.rolled_back)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node at the end of a run."""

    node: str
    shape: str
    """What it offers."""
    state: str
    """new, old, or what is wrong with it."""

    def as_dict(self) -> dict[str, str]:
        return {"node": self.node, "offers": self.shape, "state": self.state}


@dataclass(frozen=True, slots=True)
class Result:
    environment: str
    pool: str
    status: Status
    rows: tuple[NodeRow, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes about what happened, and what to do next."""
    estimate: Estimate | None = None
    """Of a dry run."""

    def as_dict(self) -> dict[str, Any]:
        """The result as `--format json` promises it."""
        value: dict[str, Any] = {
            "environment": self.environment,
            "pool": self.pool,
            "status": self.status.value,
            "nodes": [row.as_dict() for row in self.rows],
            "notes": list(self.notes),
        }
        if self.estimate is not None:
            value["order"] = [
                {
                    "node": row.node,
                    "batch": row.batch,
                    "jobs": row.jobs,
                    "waitSeconds": row.wait_seconds,
                    "changeSeconds": row.change_seconds,
                }
                for row in self.estimate.nodes
            ]
            value |= {"expectedSeconds": self.estimate.seconds, "openEnd": self.estimate.open_end}
        return value


def rows(nodes: Sequence[Node], task: Task) -> tuple[NodeRow, ...]:
    """Every node with what it has become."""
    return tuple(
        NodeRow(node.name, str(node.shape()), _state(node, task))
        for node in sorted(nodes, key=lambda one: task.order.index(one.name))
    )


def _state(node: Node, task: Task) -> str:
    new, old = task.new[node.name], task.old[node.name]
    cordoned = ", cordoned" if node.cordoned else ""
    if missing(node, new) is None:
        return f"new{cordoned}"
    if missing(node, old, strict=False) is None:
        said = "; the MIG manager says failed" if node.mig_state == "failed" else ""
        return f"old{cordoned}{said}"
    wrong = missing(node, new if node.has_labels_of(new) else old, strict=False)
    return f"{'new' if node.has_labels_of(new) else 'old'}{cordoned}; {wrong}"
