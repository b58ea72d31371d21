"""What to do next, from what is seen: the state machine. Pure; the only place where it is decided.

Between two reads nothing is remembered except the state on the nodes (cordon, mark, labels) and the failures
that a run has seen, so a run that was killed anywhere is the same as one that has just started.

    untouched --Begin--> draining --Relabel--> changing --End--> done
                            |                     |
                            | window closed       | failed, or too late
                            End                GoBack --Relabel--> restoring --End--> untouched
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpupool.live.repartition.shapes import GpuPod, LiveNode, Shape
from gpupool.live.repartition.verify import missing, reached


class Act(StrEnum):
    """Each is one write to the cluster and can be repeated."""

    begin = "cordon"
    """Cordon the node and mark it, in one write."""
    evict = "evict"
    relabel = "relabel"
    go_back = "go back"
    """Note on the node that it returns to its old shape."""
    end = "uncordon"
    """Remove mark and cordon in one write; a cordon from before stays."""


@dataclass(frozen=True, slots=True)
class NodeAction:
    act: Act
    node: str
    shape: Shape | None = None
    """Of a relabel: what the labels become."""
    job: GpuPod | None = None
    """Of an eviction."""


@dataclass(frozen=True, slots=True)
class Task:
    """What every node is to become, and what it was."""

    new: Mapping[str, Shape]
    old: Mapping[str, Shape]
    order: Sequence[str]
    """The nodes in the order in which they are taken."""
    backwards: bool = False
    """The whole change is being taken back."""

    def goal(self, node: LiveNode) -> Shape:
        """What the node is to become."""
        back = self.backwards or (node.mark is not None and node.mark.back)
        return (self.old if back else self.new)[node.name]

    def settled(self, node: LiveNode) -> bool:
        """Whether nothing is left to be done with the node."""
        return node.mark is None and reached(node, self.goal(node), strict=not self.backwards)


@dataclass(frozen=True, slots=True)
class RepartitionLimits:
    """What is allowed now."""

    max_unavailable: int
    """Nodes that may take no jobs at one time, whatever the reason."""
    may_begin: bool
    """The maintenance window is open, or the user has said not to wait for it."""
    evict: bool
    """Jobs are evicted; else they are waited for."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What this run has seen of nodes that were relabelled, by name."""

    failed: frozenset[str] = frozenset()
    """They did not come up in their new shape; each goes back, and no further node is begun."""
    judged: frozenset[str] = frozenset()
    """They are back, and the MIG manager reports `failed`; the slices decide."""
    lost: frozenset[str] = frozenset()
    """They did not come back in their old shape either; each stays cordoned for a person to check."""
    early: frozenset[str] = frozenset()
    """They look right, but their slices are unknown, and their state may be about the labels that
    they had before."""


@dataclass(frozen=True, slots=True)
class NextActions:
    actions: tuple[NodeAction, ...]
    waits: Mapping[str, str]
    """Node -> what it waits for."""
    over: bool
    """Nothing is under way and nothing may be begun: the run ends here."""


def decide(nodes: Sequence[LiveNode], task: Task, rules: RepartitionLimits, seen: Seen) -> NextActions:
    """The next writes, in order. Nodes that the task does not know are only counted."""
    known = sorted(
        (node for node in nodes if node.name in task.new), key=lambda node: task.order.index(node.name)
    )
    waits: dict[str, str] = {}
    busy = [node for node in known if node.mark is not None and node.name not in seen.lost]
    room = rules.max_unavailable - sum(node.down for node in nodes)
    actions: list[NodeAction] = []
    for node in busy:
        step = _advance(node, task, rules, seen, waits, room)
        room -= sum(action.act is Act.begin for action in step)
        actions += step
    if rules.may_begin and not seen.failed and not seen.lost:
        actions += _begin(known, task, room, waits)
    ahead = any(node.name in waits for node in known if node.mark is None)
    return NextActions(tuple(actions), waits, over=not busy and not actions and not ahead)


def _advance(
    node: LiveNode, task: Task, rules: RepartitionLimits, seen: Seen, waits: dict[str, str], room: int
) -> list[NodeAction]:
    """The next step of a node that is being worked on."""
    goal = task.goal(node)
    back = task.backwards or (node.mark is not None and node.mark.back)
    if node.name in seen.failed and not back:
        return [NodeAction(Act.go_back, node.name)]
    untouched = _untouched(node, task)
    if not node.cordoned and room > 0:
        # It was uncordoned during the change: nothing may change under jobs that start now.
        return [NodeAction(Act.begin, node.name)]
    if node.has_labels_of(goal):
        wrong = missing(node, goal, strict=node.name not in seen.judged)
        if wrong is None and node.name in seen.early:
            wrong = "its present slices are unknown, so it is watched for a while"
        if wrong is None:
            return [NodeAction(Act.end, node.name)]
        waits[node.name] = wrong
        return []
    if untouched and (not rules.may_begin or not node.cordoned):
        return [NodeAction(Act.end, node.name)]
    if node.jobs:
        waits[node.name] = f"{len(node.jobs)} running: {', '.join(map(str, node.jobs[:3]))}"
        if rules.evict:
            return [NodeAction(Act.evict, node.name, job=job) for job in node.jobs if not job.leaving]
        return []
    return [NodeAction(Act.relabel, node.name, goal)]


def _untouched(node: LiveNode, task: Task) -> bool:
    """Whether the node still works in the shape that it had when it was begun."""
    before = task.new if task.backwards else task.old
    return reached(node, before[node.name], strict=False)


def _begin(known: Sequence[LiveNode], task: Task, room: int, waits: dict[str, str]) -> list[NodeAction]:
    """Take on as many further nodes as may be down."""
    actions = []
    for node in known:
        if node.mark is not None or task.settled(node):
            continue
        if not node.ready:
            continue  # The operator can't work on it; it counts as down, and is named in the end.
        if node.cordoned:
            actions.append(NodeAction(Act.begin, node.name))  # down already, so nothing is taken away
        elif room > 0:
            actions.append(NodeAction(Act.begin, node.name))
            room -= 1
        else:
            waits[node.name] = "the maximum number of nodes is unavailable"
    return actions
