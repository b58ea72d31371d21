"""Karpenter accepts the pools, they are not full, and its node claims make progress.

Conditions and limits: Karpenter 1.14.1, karpenter.sh/v1 and v1alpha1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.environment.plan.model import POOL_LABEL, Pool
from gpupool.findings import Category
from gpupool.generators.kinds import kind_of
from gpupool.generators.node_overlays import OVERLAY_WEIGHT
from gpupool.live.cluster.live_objects import condition
from gpupool.live.cluster.snapshot import NODEPOOL_LABEL, Object, labels
from gpupool.live.drift import limits, repair
from gpupool.live.drift.ages import duration, is_being_deleted
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput
from vapcheck import quantity

_STEPS = (
    ("Launched", limits.LAUNCH, "no machine has been started"),
    ("Registered", limits.REGISTRATION, "its machine has not joined the cluster"),
    ("Initialized", limits.INITIALISATION, "its node has not become complete"),
)


def check(inputs: DriftInput) -> Iterator[Drift]:
    """Conditions of pools, overlays and classes, full pools, node claims that make no progress."""
    if inputs.plan.karpenter is None:
        return
    yield from _accepted(inputs)
    yield from _foreign(inputs)
    for pool in inputs.plan.pools:
        yield from _full(inputs, pool)
    for claim in inputs.snapshot.of("karpenter.sh/v1", "NodeClaim"):
        yield from _claim(inputs, claim)


def _accepted(inputs: DriftInput) -> Iterator[Drift]:
    for manifest in inputs.bundle:
        accepted = kind_of(manifest.kind).accepted
        live = accepted and inputs.snapshot.find(manifest.api_version, manifest.kind, manifest.name)
        if not accepted or not live or is_being_deleted(live):
            continue
        found = condition(live, accepted)
        if found.get("status") == "True":
            continue
        reason = found.get("message") or found.get("reason") or "Karpenter has not processed it yet"
        since = found.get("lastTransitionTime") or live["metadata"].get("creationTimestamp")
        late = inputs.seconds_since(since) >= limits.CONTROLLER or (
            kind_of(manifest.kind).refusal_lasts and found.get("status") == "False"
        )
        yield Drift(
            layer="karpenter",
            code="not-accepted",
            object=str(manifest),
            path=f"status.conditions[{accepted}]",
            wanted="True",
            found=found.get("status"),
            what=f"Karpenter rejects it ({accepted} is {found.get('status', 'not known')}): {reason}",
            remediation=_accept(inputs, manifest.kind, manifest.name),
            category=Category.drift if late else Category.settling,
        )


def _accept(inputs: DriftInput, kind: str, name: str) -> str:
    rivals = _strange_overlays(inputs) if kind == "NodeOverlay" else []
    if rivals:
        return repair.all_of(*(repair.delete("nodeoverlay", row["metadata"]["name"]) for row in rivals))
    return f"kubectl describe {kind.lower()} {name}, fix what it reports, then {inputs.restore()}"


def _strange_overlays(inputs: DriftInput) -> list[Object]:
    """Overlays that are not the file's and say something about GPUs of our pools."""
    ours = {m.name for m in inputs.bundle if m.kind == "NodeOverlay"}
    pools = {capacity.name for pool in inputs.plan.pools for capacity in pool.capacities}
    return [
        row
        for row in inputs.snapshot.of("karpenter.sh/v1alpha1", "NodeOverlay")
        if row["metadata"]["name"] not in ours and not is_being_deleted(row) and _concerns(row, pools)
    ]


def _concerns(overlay: Object, pools: set[str]) -> bool:
    spec = overlay.get("spec") or {}
    if not any(name.startswith("nvidia.com/") for name in spec.get("capacity") or ()):
        return False
    named = [row for row in spec.get("requirements") or () if row.get("key") == NODEPOOL_LABEL]
    return all(pools.intersection(row.get("values") or ()) for row in named if row.get("operator") == "In")


def _foreign(inputs: DriftInput) -> Iterator[Drift]:
    """Overlays and pools of others that affect ours."""
    for row in _strange_overlays(inputs):
        if (row["spec"].get("weight") or 0) > OVERLAY_WEIGHT:
            name = row["metadata"]["name"]
            yield Drift(
                layer="karpenter",
                code="overlay-over",
                object=f"NodeOverlay {name}",
                what=f"it is not in the file, has a higher weight ({row['spec']['weight']}, ours "
                f"{OVERLAY_WEIGHT}) and sets the number of slices of our pools' nodes",
                remediation=repair.delete("nodeoverlay", name),
            )
    ours = {capacity.name for pool in inputs.plan.pools for capacity in pool.capacities}
    known = {pool.name for pool in inputs.plan.pools}
    for row in inputs.snapshot.of("karpenter.sh/v1", "NodePool"):
        template = ((row.get("spec") or {}).get("template") or {}).get("metadata") or {}
        label = (template.get("labels") or {}).get(POOL_LABEL)
        name = row["metadata"]["name"]
        if (
            name not in ours
            and label in known
            and not is_being_deleted(row)
            and POOL_LABEL not in labels(row)
        ):
            yield Drift(
                layer="karpenter",
                code="node-pool-beside",
                object=f"NodePool {name}",
                what=f"it is not in the file and starts nodes with the label of pool {label}: "
                "the pool's limits do not apply to them",
                remediation=repair.delete("nodepool", name),
            )


def _full(inputs: DriftInput, pool: Pool) -> Iterator[Drift]:
    """Pods that wait for a pool none of whose NodePools may grow."""
    live = [inputs.snapshot.find("karpenter.sh/v1", "NodePool", c.name) for c in pool.capacities]
    full = [reached for row in live if row is not None and (reached := _reached(row))]
    waiting = [pod for pod in inputs.snapshot.of("v1", "Pod") if _waits_for(pod, pool.name)]
    if not live or len(full) < len(live) or not waiting:
        return
    longest = max(inputs.age(pod) for pod in waiting)
    names = ", ".join(f"{p['metadata']['namespace']}/{p['metadata']['name']}" for p in waiting[:3])
    more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
    yield Drift(
        layer="karpenter",
        code="at-limit",
        object=f"pool {pool.name}",
        what=f"it is at its limit ({'; '.join(full)}) and {len(waiting)} pods wait for it, the first since "
        f"{duration(longest)}: {names}{more}",
        remediation=f"raise pools[{pool.name}].{pool.limit_field} in the file, then {inputs.apply()}; "
        "or end jobs",
        category=Category.drift if longest >= limits.PENDING else Category.settling,
    )


def _reached(node_pool: Object) -> str:
    """The limit that a NodePool has reached, as words; empty where it may grow."""
    used = (node_pool.get("status") or {}).get("resources") or {}
    for name, most in ((node_pool.get("spec") or {}).get("limits") or {}).items():
        if _number(used.get(name, "0")) >= _number(most) > 0:
            return (
                f"{node_pool['metadata']['name']}: {used[name]} of {most} {name.removeprefix('nvidia.com/')}"
            )
    return ""


def _number(value: Any) -> int:
    text = str(quantity(str(value)))
    return int(text) if text.isdigit() else 0


def _waits_for(pod: Object, pool: str) -> bool:
    spec = pod["spec"]
    if (
        spec.get("nodeName")
        or is_being_deleted(pod)
        or condition(pod, "PodScheduled").get("status") != "False"
    ):
        return False
    if (spec.get("nodeSelector") or {}).get(POOL_LABEL) == pool:
        return True
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    return any(
        row.get("key") == POOL_LABEL and row.get("operator") == "In" and row.get("values") == [pool]
        for term in affinity.get("nodeSelectorTerms") or ()
        for row in term.get("matchExpressions") or ()
    )


def _claim(inputs: DriftInput, claim: Object) -> Iterator[Drift]:
    """A node claim that makes no progress, with what Karpenter says about it."""
    name = claim["metadata"]["name"]
    node_pool = labels(claim).get(NODEPOOL_LABEL, "")
    pool = next((p for p in inputs.plan.pools for c in p.capacities if c.name == node_pool), None)
    if pool is None:
        return
    if is_being_deleted(claim):
        lasting = inputs.seconds_since(claim["metadata"]["deletionTimestamp"])
        if lasting >= limits.DRAIN:
            held = condition(claim, "Drained").get("message") or "it waits for its pods"
            reason = f"it has been terminating for {duration(lasting)}: {held}"
            inspect = f"kubectl describe nodeclaim {name}"
            yield _stuck(name, pool, "claim-leaving", reason, inspect, Category.warning)
        return
    for kind, allowed, meaning in _STEPS:
        found = condition(claim, kind)
        if found.get("status") == "True":
            continue
        lasting = inputs.age(claim)
        reason = found.get("message") or found.get("reason") or "Karpenter gives no reason"
        late = lasting >= allowed
        reason = f"{meaning} for {duration(lasting)} ({kind}: {reason})"
        if late:
            yield _stuck(name, pool, "claim-stuck", reason, repair.delete("nodeclaim", name), Category.drift)
        elif kind != "Initialized":
            # From then on the node exists, and its layer reports that it starts.
            inspect = f"kubectl describe nodeclaim {name}"
            yield _stuck(name, pool, "claim-starting", reason, inspect, Category.settling)
        return


def _stuck(name: str, pool: Pool, kind: str, reason: str, command: str, level: Category) -> Drift:
    return Drift(
        layer="karpenter",
        code=kind,
        object=f"NodeClaim {name}",
        what=f"{reason} (pool {pool.name})",
        remediation=command,
        category=level,
    )
