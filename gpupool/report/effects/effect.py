"""Making effects: what most of them have in common."""

from __future__ import annotations

from gpupool.report.model import EffectKind, NodeEffect, PodFate


def effect(
    kind: EffectKind,
    pool: str,
    reason: str,
    what: str,
    *,
    node_pool: str | None = None,
    nodes_max: int | None = None,
    at_once: int | None = None,
    window: str | None = None,
    pods: PodFate = "kept",
    certain: bool = True,
    nodes: tuple[str, ...] = (),
) -> NodeEffect:
    """An effect before it is put into words and before a cluster is asked; see
    `gpupool.report.model.NodeEffect`.

    `what` is added to the number of nodes, the time, and the consequence for their pods.
    """
    return NodeEffect(
        kind=kind,
        pool=pool,
        node_pool=node_pool,
        reason=reason,
        what=what,
        certain=certain,
        nodes_max=nodes_max,
        at_once=at_once,
        window=window,
        pods=pods,
        nodes=nodes,
        nodes_now=None,
        pods_at_risk=(),
    )


def stay(pool: str, reason: str, what: str, node_pool: str | None = None) -> NodeEffect:
    """The effect that nothing happens, where one might expect something."""
    return effect("stay", pool, reason, what, node_pool=node_pool)
