"""The state machine against a made-up cluster that fails, dies and is meddled with: what may never happen.

The cluster here is a few lines of bookkeeping with a random hand; the real one is in
tests/cluster/repartition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gpupool.live.repartition.order import order
from gpupool.live.repartition.shapes import GpuPod, LiveNode, Mark, Shape
from gpupool.live.repartition.steps import Act, NodeAction, RepartitionLimits, Task, decide
from gpupool.live.repartition.watch import Watch
from tests.examples import examples

OLD = Shape("pool", "2x3g", {"nvidia.com/mig-3g.40gb": 2})
NEW = Shape("pool", "3x2g", {"nvidia.com/mig-2g.20gb": 3})
ROUNDS = 120


@dataclass
class Hand:
    """What chance decides."""

    random: Random
    broken: set[str]
    """Nodes whose operator fails in the new shape."""
    dead: set[str]
    """Nodes whose operator does nothing in any shape once it has been asked."""

    def often(self) -> bool:
        return self.random.randrange(3) == 0


class Cluster:
    """Nodes as the machine's steps and the operator make them."""

    def __init__(self, nodes: list[LiveNode], hand: Hand, most: int) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.hand, self.most = hand, most

    def read_nodes(self) -> list[LiveNode]:
        return list(self.nodes.values())

    def do(self, action: NodeAction) -> None:
        node = self.nodes[action.node]
        if action.act is Act.begin:
            back = node.mark.back if node.mark else False
            was = node.mark.cordoned_before if node.mark else node.cordoned
            node = replace(node, mark=Mark(was, back), cordoned=True)
        elif action.act is Act.end:
            assert node.mark is not None
            assert node.slices, "a node that offers nothing gets no jobs"
            node = replace(node, cordoned=node.mark.cordoned_before, mark=None)
        elif action.act is Act.go_back:
            assert node.mark is not None
            node = replace(node, mark=replace(node.mark, back=True))
        elif action.act is Act.relabel:
            assert action.shape is not None
            assert not node.jobs, "no node changes under a job"
            assert node.mark is not None
            assert node.cordoned, "nor while jobs may come"
            node = replace(node, plugin=action.shape.plugin, mig=action.shape.mig, mig_state="pending")
        elif action.act is Act.evict:
            jobs = tuple(replace(job, leaving=True) if job == action.job else job for job in node.jobs)
            node = replace(node, jobs=jobs)
        self.nodes[action.node] = node
        ours = [
            one for one in self.read_nodes() if one.mark and not one.mark.cordoned_before and one.cordoned
        ]
        assert len(ours) <= self.most, "more nodes are down than may be"

    def tick(self) -> None:
        """Operator and jobs go on; people meddle."""
        for name, node in self.nodes.items():
            if node.mig_state == "pending" and self.hand.often():
                shape = NEW if node.mig == NEW.mig else OLD
                if name in self.hand.dead:
                    node = replace(node, mig_state="failed", slices={})
                elif name in self.hand.broken and shape is NEW:
                    node = replace(node, mig_state="failed", slices=dict(node.slices))
                else:
                    node = replace(node, mig_state="success", slices=dict(shape.slices))
            if node.jobs and (node.jobs[0].leaving or self.hand.often()):
                node = replace(node, jobs=node.jobs[1:])
            self.nodes[name] = node


def nodes_of(draw: st.DataObject, count: int) -> list[LiveNode]:
    made = []
    for number in range(count):
        jobs = [
            GpuPod("default", f"job-{number}-{n}", 30, False, None)
            for n in range(draw.draw(st.integers(0, 2)))
        ]
        cordoned = draw.draw(st.integers(0, 5), "cordoned by somebody") == 0
        made.append(
            LiveNode(
                f"n{number}", True, cordoned, None, "pool", OLD.mig, "success", OLD.slices, None, tuple(jobs)
            )
        )
    return made


@examples("repartition", 60)
@given(st.data())
def test_whatever_happens(data: st.DataObject) -> None:
    count, most = data.draw(st.integers(1, 4), "nodes"), data.draw(st.integers(1, 3), "most down")
    nodes = nodes_of(data, count)
    names = [node.name for node in nodes]
    some = st.sets(st.sampled_from(names), max_size=1)
    hand = Hand(
        Random(data.draw(st.integers(0, 2**32), "seed")), data.draw(some, "broken"), data.draw(some, "dead")
    )
    cluster = Cluster(nodes, hand, most)
    found_cordoned = {node.name for node in nodes if node.cordoned}
    backwards = False
    for dies in (
        *data.draw(st.lists(st.integers(1, 12), max_size=3), "runs that die after so many writes"),
        0,
    ):
        if data.draw(st.integers(0, 3), "taken back") == 0:
            backwards = True
        task = Task(dict.fromkeys(names, NEW), dict.fromkeys(names, OLD), order(nodes), backwards)
        evict = data.draw(st.booleans(), "evict")
        one_run(cluster, task, RepartitionLimits(most, True, evict), dies)
    left = found_cordoned if len(found_cordoned) >= most else set()
    lost = hand.dead | hand.broken
    for node in cluster.read_nodes():
        goal = OLD if backwards else NEW
        if node.name not in lost and not left and not lost:
            assert node.slices == goal.slices
            assert node.mark is None
            assert node.cordoned == (node.name in found_cordoned), "a cordon of somebody else's stays"
        if node.name in hand.dead and node.mark is not None:
            assert node.cordoned, "a lost node gets no jobs"
        if node.name in hand.broken - hand.dead and node.mark is None and not left:
            assert node.slices == OLD.slices, "a node that failed works as before"


def one_run(cluster: Cluster, task: Task, rules: RepartitionLimits, dies: int) -> None:
    """Look, decide, act until it is over, or dead after so many writes (0: never)."""
    watch = Watch(timeout=60.0, settle=5.0)
    writes = 0
    for clock in range(ROUNDS):
        seen = watch.observe(cluster.read_nodes(), task, float(clock))
        decision = decide(cluster.read_nodes(), task, rules, seen)
        fresh = {node.name for node in cluster.read_nodes() if node.mark is None}
        begun = {action.node for action in decision.actions if action.act is Act.begin}
        assert not seen.failed or not fresh & begun, "after a failure no further node is begun"
        for action in decision.actions:
            cluster.do(action)
            writes += 1
            if writes == dies:
                return
        if decision.over:
            return
        cluster.tick()
