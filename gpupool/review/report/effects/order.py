"""All effects of a change on one environment's nodes, in the order in which they happen.

First what is done by the objects that are applied (labels, restarts), then what objects that are deleted take
with them, then what Karpenter does bit by bit within budgets and windows, last what does not happen.
"""

from __future__ import annotations

from gpupool.review.report.effects import karpenter_nodes, operands, static_nodes
from gpupool.review.report.environment_state import EnvironmentState
from gpupool.review.report.model import NodeEffect

_STEPS = {"relabelled": 0, "restarted": 1, "started": 2, "deleted": 3, "replaced": 4, "stay": 6}
_FATES = {"killed": 0, "evicted": 1, "kept": 2}


def node_effects(before: EnvironmentState | None, after: EnvironmentState | None) -> tuple[NodeEffect, ...]:
    """Effects in their order, their counts not yet in words."""
    if before and after and before.plan.cluster.platform != after.plan.cluster.platform:
        # Another platform is another cluster: nothing of the one is found in the other.
        return _ordered([*_one_way(before, None), *_one_way(None, after)])
    found = _one_way(before, after)
    if before and after and not found and before.plan != after.plan:
        found = [
            NodeEffect("stay", "", "no object changes that nodes are created from", "no node is affected")
        ]
    return _ordered(found)


def _one_way(before: EnvironmentState | None, after: EnvironmentState | None) -> list[NodeEffect]:
    return [
        *static_nodes.effects(before, after),
        *operands.effects(before, after, karpenter_nodes.drifting(before, after)),
        *karpenter_nodes.effects(before, after),
    ]


def _ordered(effects: list[NodeEffect]) -> tuple[NodeEffect, ...]:
    """Stable within a step: the worst for pods first, otherwise as in the file."""

    def rank(effect: NodeEffect) -> tuple[int, int]:
        step = _STEPS[effect.kind] + (1 if effect.kind == "replaced" and effect.window else 0)
        return step, _FATES[effect.pods]

    return tuple(sorted(effects, key=rank))
