"""Which relabelled nodes have failed: the operator says so, or it takes too long. Pure but for its memory.

The MIG manager's state may be about an earlier label, since the manager replaces it. So `failed`
counts once the manager has been seen at work after the relabelling, or has had time to begin. The slices
decide whether `success` counts; where the expected slices are unknown, it has to last for that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpupool.live.repartition.shapes import LiveNode
from gpupool.live.repartition.steps import Seen, Task
from gpupool.live.repartition.verify import UNDER_WAY, reached

_Key = tuple[str, str, str | None]


@dataclass
class Watch:
    """What one run sees of the nodes that it waits for."""

    timeout: float
    """Seconds that the operator gets for one node."""
    settle: float
    """Seconds after which the MIG manager's state is taken to be about the present label."""
    _since: dict[_Key, float] = field(default_factory=dict)
    _reached: dict[_Key, float] = field(default_factory=dict)
    _moved: set[_Key] = field(default_factory=set)
    _failed: set[str] = field(default_factory=set)
    _judged: set[str] = field(default_factory=set)
    _lost: set[str] = field(default_factory=set)

    def observe(self, nodes: Sequence[LiveNode], task: Task, now: float) -> Seen:
        """Judge every node that has its new labels; `now` is any clock in seconds that never goes back."""
        early = set()
        for node in nodes:
            if node.mark is None or node.name not in task.new:
                continue
            back = task.backwards or node.mark.back
            if node.mark.back and not task.backwards:
                self._failed.add(node.name)  # noted by a run before this one
            goal = task.goal(node)
            key = (node.name, goal.plugin, goal.mig)
            if not goal.slices and self._is_early(key, reached(node, goal), now):
                early.add(node.name)
            if node.has_labels_of(goal) and not reached(node, goal):
                self._judge(node, key, back, now)
                # Unknown slices can't decide, unless there are none for jobs.
                decides = bool(goal.slices) or not node.slices
                if node.name in self._lost | self._judged and decides and reached(node, goal, strict=False):
                    self._judged.add(node.name)
                    self._lost.discard(node.name)
        return Seen(*map(frozenset, (self._failed, self._judged, self._lost, early)))

    def _is_early(self, key: _Key, is_reached: bool, now: float) -> bool:
        """Whether a node has been as it should for too short a time to be believed."""
        if not is_reached:
            self._reached.pop(key, None)
            return False
        return now - self._reached.setdefault(key, now) <= self.settle

    def _judge(self, node: LiveNode, key: _Key, back: bool, now: float) -> None:
        since = self._since.setdefault(key, now)
        if node.mig_state in UNDER_WAY:
            self._moved.add(key)
        final = node.mig_state == "failed" and (key in self._moved or now - since > self.settle)
        if final or now - since > self.timeout:
            (self._lost if back else self._failed).add(node.name)
