"""An effect on nodes as a sentence: how many, how many at a time, when, and what becomes of their pods.

The only place with the wording of effects, so that every format says the same with and without a cluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gpupool.review.report.model import NodeEffect

_PODS = {
    "evicted": "{their} pods are evicted, and those that a Job or another controller owns start again",
    "killed": "pods that use {their} GPUs fail",
    "kept": "running pods stay",
}
_VERBS = {
    "replaced": "replaced",
    "deleted": "drained and deleted",
    "relabelled": "relabelled",
    "started": "started",
}

_NOTES = {
    "replaced": "Replaced: Karpenter marks the nodes as drifted, starts a replacement if pods need one (a "
    "pool at its maximum temporarily exceeds it by one node), then drains. A pod with the annotation "
    "karpenter.sh/do-not-disrupt, or protected by a PodDisruptionBudget, keeps its node until it ends. "
    "If only the sharing changes, gpupool repartition changes the nodes in place instead.",
    "deleted": "Deleted: the nodes of a deleted NodePool are drained all at once, without replacement; "
    "maxUnavailable and the maintenance window do not apply. A PodDisruptionBudget and "
    "karpenter.sh/do-not-disrupt do.",
    "relabelled": "Relabelled: labels and taints of existing nodes change at once, on all of them.{mig}",
}
_MIG_MANAGER = (
    " The MIG manager does not drain: while a pod uses a GPU, it fails and the node loses its free slices. "
    "Drain such nodes first; gpupool repartition does so node by node."
)


def explained(effects: Sequence[NodeEffect], mig: bool) -> tuple[str, ...]:
    """What the kinds of these effects mean, for those who see them for the first time. `mig`: whether a pool
    is partitioned before or after."""
    kinds = {effect.kind for effect in effects}
    return tuple(
        text.format(mig=_MIG_MANAGER if mig else "") for kind, text in _NOTES.items() if kind in kinds
    )


def in_words(effect: NodeEffect) -> NodeEffect:
    """`effect` with the whole sentence as `what`: the count, then what was there."""
    return dataclasses.replace(effect, what=_sentence(effect))


def _sentence(effect: NodeEffect) -> str:
    if effect.kind in ("stay", "restarted"):
        return effect.what
    clauses = [f"{_count(effect)} {_auxiliary(effect)} {_VERBS[effect.kind]}{_pace(effect)}"]
    if effect.kind in ("replaced", "deleted"):
        clauses.append(_PODS[effect.pods].format(their="its" if _single(effect) else "their"))
    if effect.only:
        clauses[0] += f", only those {' or '.join(effect.only)}"
    if effect.what:
        clauses.append(effect.what)
    return "; ".join(clauses)


def _auxiliary(effect: NodeEffect) -> str:
    if not effect.certain:
        return "may be"
    return "is" if _single(effect) else "are"


def _single(effect: NodeEffect) -> bool:
    """Whether the sentence is about one node."""
    count = effect.nodes_max if effect.nodes_now is None else effect.nodes_now
    return (len(effect.nodes) if effect.nodes else count) == 1


def _count(effect: NodeEffect) -> str:
    if effect.nodes and effect.nodes_now is None:
        return f"{'node' if len(effect.nodes) == 1 else 'nodes'} {', '.join(effect.nodes)}"
    if effect.nodes_now is not None:
        now = f"{effect.nodes_now} {'node' if effect.nodes_now == 1 else 'nodes'}"
        return f"{now} (up to {effect.nodes_max} by the file)" if effect.nodes_max is not None else now
    if effect.nodes_max is None:
        return "all nodes"
    if effect.kind == "started":
        return f"{effect.nodes_max} {'node' if effect.nodes_max == 1 else 'nodes'}"
    return f"up to {effect.nodes_max} {'node' if effect.nodes_max == 1 else 'nodes'}"


def _pace(effect: NodeEffect) -> str:
    if effect.kind == "started":
        return ""
    several = effect.nodes_max is None or effect.nodes_max > 1
    pace = (
        "" if not several else " all at once" if effect.at_once is None else f", {effect.at_once} at a time"
    )
    return pace + (f", {effect.window}" if effect.window else "")
