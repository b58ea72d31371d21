"""Karpenter pools: pause Karpenter while nodes change in place, and update its records afterwards.

Changing the label of a layout in a NodePool's template makes every node of it drift, and Karpenter replaces
drifted nodes within the pool's disruption budgets. Scarce machines should be kept. So the template changes
together with a budget of 0, and new nodes start in the new shape; nodes are changed in place; then each
NodeClaim is given the hash of the template that its node now fits, and once Karpenter calls none of them
drifted the budgets come back. Karpenter 1.14.1: the hash covers the template without requirements and
budgets, and is compared with the annotation that the claim got when it was created
(pkg/controllers/nodeclaim/disruption).

A budget does not prevent expiry, interruption, node repair or a deletion by hand: a node that is removed
during the change is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from typing import Any

from gpupool.environment.plan.model import MANAGED_BY, POOL_LABEL, Pool
from gpupool.findings import GpupoolError
from gpupool.generators.manifest import Bundle
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.live_objects import STEERING, condition
from gpupool.live.cluster.snapshot import NODEPOOL_LABEL
from gpupool.live.objects.owner import FIELD_MANAGER
from gpupool.live.objects.resource_values import properties

_POOLS = ("karpenter.sh/v1", "NodePool")
_CLAIMS = ("karpenter.sh/v1", "NodeClaim")
_OVERLAYS = ("karpenter.sh/v1alpha1", "NodeOverlay")
HASH = "karpenter.sh/nodepool-hash"
_HELD = [{"nodes": "0"}]
_PATIENCE_SECONDS = 120.0
"""How long Karpenter may take to evaluate the change; it takes seconds."""


def state(api: KubeApi, pool: Pool) -> dict[str, Any]:
    """NodePools and NodeOverlays of the pool as they are, and the hashes, for the journal."""
    pools = [api.get(*_POOLS, capacity.name) for capacity in pool.capacities]
    missing = [c.name for c, live in zip(pool.capacities, pools, strict=True) if live is None]
    if missing:
        raise GpupoolError(
            f"there is no NodePool {', '.join(missing)} in the cluster yet; apply the environment "
            "first: gpupool up"
        )
    overlays = api.list(*_OVERLAYS, selector=_selector(pool))
    return {
        "pools": {live["metadata"]["name"]: _bare(live) for live in pools if live is not None},
        "overlays": {live["metadata"]["name"]: _bare(live) for live in overlays},
        "hashes": {live["metadata"]["name"]: _hash(live) for live in pools if live is not None},
    }


def only_sharing(api: KubeApi, bundle: Bundle, pool: Pool) -> list[str]:
    """Fields of the NodePools' templates that change beside the sharing: nodes can't get those in place."""
    found = []
    for manifest in _manifests(bundle, pool, "NodePool"):
        live = api.get(*_POOLS, manifest["metadata"]["name"])
        # The server fills in defaults, so both sides have been through it.
        _, new = api.apply(manifest, FIELD_MANAGER, force=True, dry_run=True)
        name = manifest["metadata"]["name"]
        found += [f"{name}: {key}" for key in _differing(_template(live or {}), _template(new))]
    return found


def hold(api: KubeApi, bundle: Bundle, pool: Pool, before: Mapping[str, Any], backwards: bool) -> None:
    """Template and overlays as they are to be from now on, and no disruption until `release`."""
    overlays = _overlays(bundle, pool, before, backwards)
    for body in overlays.values():
        api.apply(body, FIELD_MANAGER, force=True)
    for body in _pools(bundle, pool, before, backwards):
        held = deepcopy(body)
        held["spec"]["disruption"]["budgets"] = _HELD
        api.apply(held, FIELD_MANAGER, force=True)
    for live in api.list(*_OVERLAYS, selector=_selector(pool)):
        if live["metadata"]["name"] not in overlays:
            api.delete(*_OVERLAYS, live["metadata"]["name"])


def adopt(
    api: KubeApi,
    bundle: Bundle,
    pool: Pool,
    before: Mapping[str, Any],
    settled: Collection[str],
    backwards: bool,
    notify: Callable[[str], None],
) -> None:
    """Give the claims of `settled` nodes the hash of the template that they now fit, and wait until Karpenter
    calls none of them drifted. Raises GpupoolError where it goes on calling them so."""
    names = [body["metadata"]["name"] for body in _pools(bundle, pool, before, backwards)]
    notify("waiting for Karpenter to process the new template")
    hashes = {name: _settled_hash(api, name, before) for name in names}
    labels = {key: pool.labels.get(key) for key in STEERING}
    for claim in _claims(api, names):
        if claim.get("status", {}).get("nodeName") in settled:
            owner = claim["metadata"]["labels"][NODEPOOL_LABEL]
            meta: dict[str, Any] = {"annotations": {HASH: hashes[owner]}}
            meta |= {} if backwards else {"labels": labels}
            if _lacks(claim, meta):
                api.patch(*_CLAIMS, claim["metadata"]["name"], {"metadata": meta})
    until = time.monotonic() + _PATIENCE_SECONDS
    while drifted := [
        claim["metadata"]["name"]
        for claim in _claims(api, names)
        if claim.get("status", {}).get("nodeName") in settled
        and condition(claim, "Drifted").get("status") == "True"
    ]:
        if time.monotonic() > until:
            raise GpupoolError(
                f"Karpenter still reports {', '.join(drifted)} as drifted, so its disruption budget stays "
                "0; find the reason with `kubectl describe nodeclaim`, then run this command again"
            )
        time.sleep(0.5)


def release(api: KubeApi, bundle: Bundle, pool: Pool, before: Mapping[str, Any], backwards: bool) -> None:
    """Give the disruption budgets back."""
    for body in _pools(bundle, pool, before, backwards):
        api.apply(body, FIELD_MANAGER, force=True)


def _manifests(bundle: Bundle, pool: Pool, kind: str) -> list[dict[str, Any]]:
    return [
        properties(manifest)
        for manifest in bundle
        if manifest.kind == kind and manifest.labels.get(POOL_LABEL) == pool.name
    ]


def _pools(bundle: Bundle, pool: Pool, before: Mapping[str, Any], backwards: bool) -> list[dict[str, Any]]:
    return list(before["pools"].values()) if backwards else _manifests(bundle, pool, "NodePool")


def _overlays(
    bundle: Bundle, pool: Pool, before: Mapping[str, Any], backwards: bool
) -> dict[str, dict[str, Any]]:
    if backwards:
        return dict(before["overlays"])
    return {body["metadata"]["name"]: body for body in _manifests(bundle, pool, "NodeOverlay")}


def _settled_hash(api: KubeApi, name: str, before: Mapping[str, Any]) -> str:
    """The NodePool's hash once Karpenter has computed it again; the old one where no template changes."""
    old = before["hashes"][name]
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        live = api.get(*_POOLS, name) or {}
        same = not _differing_labels(before["pools"][name], live)
        if (_hash(live) == old) == same:
            return _hash(live)
        if time.monotonic() > until:
            raise GpupoolError(
                f"Karpenter has not processed NodePool {name} for {_PATIENCE_SECONDS:.0f} s; check that it "
                "runs, then run this command again"
            )
        time.sleep(0.2)


def _claims(api: KubeApi, pools: Collection[str]) -> list[dict[str, Any]]:
    found = api.list(*_CLAIMS)
    return [c for c in found if (c["metadata"].get("labels") or {}).get(NODEPOOL_LABEL) in pools]


def _lacks(claim: Mapping[str, Any], meta: Mapping[str, Any]) -> bool:
    have = claim["metadata"]
    return any(
        (have.get(part) or {}).get(key) != value
        for part, pairs in meta.items()
        for key, value in pairs.items()
    )


def _selector(pool: Pool) -> str:
    return f"{MANAGED_BY}=gpupool,{POOL_LABEL}={pool.name}"


def _hash(live: Mapping[str, Any]) -> str:
    return str(((live.get("metadata") or {}).get("annotations") or {}).get(HASH, ""))


def _bare(live: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what the server adds, so that it can be applied again."""
    meta = live["metadata"]
    kept: dict[str, Any] = {"name": meta["name"], "labels": meta.get("labels") or {}}
    notes = {k: v for k, v in (meta.get("annotations") or {}).items() if not k.startswith("karpenter.sh/")}
    kept |= {"annotations": notes} if notes else {}
    head = {"apiVersion": live["apiVersion"], "kind": live["kind"]}
    return {**head, "metadata": kept, "spec": live["spec"]}


def _template(live: Mapping[str, Any]) -> dict[str, Any]:
    """A NodePool's template without the steering labels, in flat form."""
    template = deepcopy((live.get("spec") or {}).get("template") or {})
    labels = template.get("metadata", {}).get("labels", {})
    rest = {key: value for key, value in labels.items() if key not in STEERING}
    return {**template.get("spec", {}), "labels": rest}


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return sorted(key for key in {*old, *new} if old.get(key) != new.get(key))


def _differing_labels(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    found = [one["spec"]["template"].get("metadata", {}).get("labels", {}) for one in (old, new)]
    return bool(found[0] != found[1])
