"""Ways to break a bundle, and objects to put into one."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

from gpupool.environment.sharing import TimeSlicing
from tests.policy.rules.drafts import Draft

TENANT = "team-vision"
REACHES = {"key": "gpupool.dev/pool", "operator": "Exists"}
TEMPLATE = ("spec", "template")
Change = Callable[[Draft], Any]


def another_version(draft: Draft) -> None:
    """The same object at another version of its group."""
    draft.bodies.append(
        {**copy.deepcopy(draft.one("NodePool", "notebooks")), "apiVersion": "karpenter.sh/v1beta1"}
    )


def warm_pod(draft: Draft) -> Any:
    return draft.one("Deployment", "warm-notebooks")["spec"]["template"]["spec"]


def reading(kind: str, name: str, **more: Any) -> dict[str, Any]:
    source = {"name": name, **more}
    field = "configMapKeyRef" if kind == "ConfigMap" else "secretKeyRef"
    return {"containers": [{"name": "c", "env": [{"name": "X", "valueFrom": {field: source}}]}]}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": TENANT},
        "data": data,
    }


def policy_binding(policy: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "guard"},
        "spec": {"policyName": policy, "paramRef": {"name": "limits", "namespace": TENANT}},
    }


def admission_policy(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}},
    }


def selecting(kind: str, selector: Any, namespace: str = "gpupool-system") -> dict[str, Any]:
    field = "podSelector" if kind == "NetworkPolicy" else "selector"
    group = {"NetworkPolicy": "networking.k8s.io/v1", "PodDisruptionBudget": "policy/v1", "Service": "v1"}
    return {
        "apiVersion": group[kind],
        "kind": kind,
        "metadata": {"name": "few", "namespace": namespace},
        "spec": {field: selector},
    }


def priority_class(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def replan(draft: Draft, **changes: Any) -> None:
    assert draft.plan is not None
    draft.plan = dataclasses.replace(draft.plan, **changes)


def imaged(draft: Draft, alias: str, **of_tenants: Any) -> None:
    """Another machine image for every pool, and changed tenants."""
    assert draft.plan is not None
    assert draft.plan.karpenter is not None
    karpenter = draft.plan.karpenter.model_copy(update={"ami_alias": alias})
    tenants = tuple(dataclasses.replace(tenant, **of_tenants) for tenant in draft.plan.tenants)
    replan(draft, karpenter=karpenter, tenants=tenants)


def promise(draft: Draft, times: int) -> None:
    """So many more tenants that are each granted all of a pool."""
    assert draft.plan is not None
    whole = dict(draft.plan.pool("notebooks").slices_max)
    tenant = dataclasses.replace(draft.plan.tenants[0], grants={"notebooks": whole})
    draft.plan = dataclasses.replace(
        draft.plan, tenants=tuple(dataclasses.replace(tenant, name=f"t{n}") for n in range(times))
    )


def slice_up(draft: Draft, replicas: int) -> None:
    """Each GPU of the first pool in so many time slices."""
    assert draft.plan is not None
    first, *others = draft.plan.pools
    replan(draft, pools=(dataclasses.replace(first, sharing=TimeSlicing(replicas)), *others))


def unpriced(draft: Draft) -> None:
    assert draft.plan is not None
    first, *others = draft.plan.pools
    machine = dataclasses.replace(first.machines[0], usd_per_hour=None)
    replan(draft, pools=(dataclasses.replace(first, machines=(machine,)), *others), monthly_usd_max=1e9)


def config_data(draft: Draft, prefix: str) -> tuple[dict[str, Any], str]:
    """The operator's ConfigMap whose name starts so: its data and its name."""
    body = next(
        b for b in draft.bodies if b["kind"] == "ConfigMap" and b["metadata"]["name"].startswith(prefix)
    )
    return body["data"], body["metadata"]["name"]


def edit(draft: Draft, prefix: str, key: str, old: str, new: str) -> None:
    data, _ = config_data(draft, prefix)
    assert data[key].count(old) >= 1
    data[key] = data[key].replace(old, new)


def without_config(prefix: str) -> Change:
    return lambda draft: draft.drop("ConfigMap", config_data(draft, prefix)[1])


def put(body: Any, *path: Any) -> None:
    """Put the last of `path` where the others lead."""
    *way, key, value = path
    for part in way:
        body = body[part]
    body[key] = value


def pool_affinity(*pools: str) -> dict[str, Any]:
    row = {"key": "gpupool.dev/pool", "operator": "In", "values": list(pools)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [row]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def heavier_overlay(overlay: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(overlay)
    found["metadata"]["name"] = "heavier"
    found["spec"] |= {"weight": 200, "capacity": {"nvidia.com/gpu": "1"}}
    return found
