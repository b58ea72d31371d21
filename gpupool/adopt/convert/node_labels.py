"""Labels and taints of nodes as a pool may have them: which are the user's, which gpupool or others set.

The same rules as `gpupool.environment.plan.checks.labels`, applied before there is a pool to check.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.draft import DraftPool
from gpupool.adopt.convert.spec_words import fits
from gpupool.environment.plan.checks.labels import may_label
from gpupool.environment.plan.model import POOL_LABEL

PLUGIN_LABEL = "nvidia.com/device-plugin.config"
MIG_LABEL = "nvidia.com/mig.config"
STEERING = (POOL_LABEL, PLUGIN_LABEL, MIG_LABEL)
"""Labels that gpupool derives from the pool."""
_OWNED = ("gpupool.dev", "nvidia.com", "karpenter.sh", "karpenter.k8s.aws", "kubernetes.io", "k8s.io")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
LIFECYCLE = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")


def owned(key: str) -> bool:
    """Whether a key is in a domain that gpupool, NVIDIA, Karpenter or Kubernetes sets."""
    domain = key.partition("/")[0] if "/" in key else ""
    return any(domain == owner or domain.endswith(f".{owner}") for owner in _OWNED)


def labels(parts: list[tuple[str, Part]]) -> dict[str, str]:
    """The user's labels among `parts`; the others are listed, but for those that gpupool derives."""
    result: dict[str, str] = {}
    for key, part in parts:
        if key in STEERING:
            continue
        if owned(key) and not may_label(key):
            part.left("pools can't set this label", "use your own key, or remove it")
        elif not isinstance(part.value, str) or not taken(key, part.value):
            part.wrong("not a valid Kubernetes label", "use at most 63 characters")
        else:
            part.used()
            result[key] = part.value
    return result


def taints(part: Part, pool: str) -> list[dict[str, str]] | None:
    """Taints as a pool has them; None for gpupool's own default. What can't be one is listed."""
    result: list[dict[str, str]] = []
    seen: set[tuple[str, str]] = set()
    for item in part.each():
        taint = _taint(item)
        if taint is None:
            item.wrong("not a valid Kubernetes taint", "write key, value and effect")
        elif taint == default_taint(pool) and len(part.value) == 1:
            item.derives("key", "value", "effect")
            return None
        elif taint["key"].startswith(LIFECYCLE):
            item.of_cluster()
        elif owned(taint["key"]) and taint["key"] not in ("nvidia.com/gpu", "kubernetes.io/arch"):
            item.left("pools can't set this taint", "use your own key")
        elif (taint["key"], taint["effect"]) in seen:
            item.wrong("the same key and effect appear twice; a node has one of them", "remove one of them")
        else:
            item.uses("key", "value", "effect")
            seen.add((taint["key"], taint["effect"]))
            result.append(taint)
    return result


def _taint(item: Part) -> dict[str, str] | None:
    data = item.value if isinstance(item.value, dict) else {}
    key, value, effect = data.get("key"), data.get("value", ""), data.get("effect")
    if not isinstance(key, str) or not fits("label key", key) or effect not in _EFFECTS:
        return None
    if not isinstance(value, str) or not fits("label value", value):
        return None
    return {"key": key, **({"value": value} if value else {}), "effect": str(effect)}


def pool_name(text: str) -> str:
    """`text` as the name of a pool: small letters, digits and hyphens, at most 52 characters."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:52].strip("-")
    return name or "pool"


def default_taint(pool: str) -> dict[str, str]:
    """The taint that a pool has where its file names none."""
    return {"key": POOL_LABEL, "value": pool, "effect": "NoSchedule"}


def tolerations(listed: Part, pools: Sequence[DraftPool], chart: Sequence[Mapping[str, str]]) -> None:
    """Mark the tolerations that gpupool gives the operator's pods for the pools' taints, or that its chart
    has; list the others."""
    known = [*chart, {"key": POOL_LABEL, "operator": "Exists"}]
    for pool in pools:
        for taint in [default_taint(pool.name)] if pool.taints is None else pool.taints:
            known += [{"key": taint["key"], "operator": "Exists"}, _toleration(taint)]
    for item in listed.each():
        if item.value in known:
            item.derived()
        else:
            item.left("tolerations follow from the pools' taints", "add the taint to a pool")


def _toleration(taint: dict[str, str]) -> dict[str, str]:
    """The toleration of that taint and no other, as earlier versions gave it to the operator's pods."""
    if taint.get("value"):
        return {"key": taint["key"], "operator": "Equal", "value": taint["value"], "effect": taint["effect"]}
    return {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}


def taken(key: str, value: str) -> bool:
    """Whether Kubernetes takes this as a label."""
    return fits("label key", key) and fits("label value", value)
