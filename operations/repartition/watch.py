"""Which relabelled nodes have failed: the operator says so, or it takes too long. Pure but for its memory.

The MIG manager's `failed` may be a word about an earlier label, since it is the manager who replaces it. So
it counts once the manager has been seen at work after the relabelling, or has had time to begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from operations.repartition.shapes import Node
from operations.repartition.steps import Seen, Task
from operations.repartition.verify import UNDER_WAY, reached

_Key = tuple[str, str, str | None]


@dataclass
class Watch:
    """What one run sees of the nodes that it waits for."""

    timeout: float
    """Seconds that the operator gets for one node."""
    settle: float
    """Seconds after which `failed` is taken to be about the present label."""
    _since: dict[_Key, float] = field(default_factory=dict)
    _moved: set[_Key] = field(default_factory=set)
    _failed: set[str] = field(default_factory=set)
    _judged: set[str] = field(default_factory=set)
    _lost: set[str] = field(default_factory=set)

    def look(self, nodes: Sequence[Node], task: Task, now: float) -> Seen:
        """Judge every node that wears its new labels; `now` is any clock in seconds that never goes back."""
        for node in nodes:
            if node.mark is None or node.name not in task.new:
                continue
            back = task.backwards or node.mark.back
            if node.mark.back and not task.backwards:
                self._failed.add(node.name)  # noted by a run before this one
            goal = task.goal(node)
            if node.wears(goal) and not reached(node, goal):
                self._judge(node, (node.name, goal.plugin, goal.mig), back, now)
                if node.name in self._lost | self._judged and reached(node, goal, strict=False):
                    self._judged.add(node.name)
                    self._lost.discard(node.name)
        return Seen(frozenset(self._failed), frozenset(self._judged), frozenset(self._lost))

    def _judge(self, node: Node, key: _Key, back: bool, now: float) -> None:
        since = self._since.setdefault(key, now)
        if node.mig_state in UNDER_WAY:
            self._moved.add(key)
        final = node.mig_state == "failed" and (key in self._moved or now - since > self.settle)
        if final or now - since > self.timeout:
            (self._lost if back else self._failed).add(node.name)
