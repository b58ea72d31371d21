"""One job on a slice of every pool of an environment, and a table of what the pools then have.

What `make up` ends with: proof that each pool starts a node, gets its slices and runs a pod. Works on
any cluster that the environment was applied to, though only the local one completes pods by itself.
It applies jobs and reads; it never changes pools.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpupool.environment.plan.model import POOL_LABEL, Plan, Pool
from gpupool.environment.plan.pods import pod_fields
from gpupool.environment.plan.priority_classes import own_class
from gpupool.environment.plan.tenants import Tenant
from gpupool.findings import GpupoolError
from gpupool.generators import restricted_pod
from gpupool.generators.metadata import content_name
from gpupool.live.cluster.kube_api import KubeApi

_MANAGER = "gpupool-sample"
LABEL = "gpupool.dev/sample"
_JOB = "batch.kubernetes.io/job-name"
"""Label by which the Job controller names a pod's Job (Kubernetes 1.27 and later)."""
_RUNS = "24h"
"""How long a sample runs on the local cluster: long enough to inspect it, and to find it again."""
_DEADLINE_S = 25 * 3600
"""When one ends on a cluster whose pods do not end by themselves."""
_TIMEOUT_S = 300.0
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class PoolOnCluster:
    """What one pool has on the cluster now."""

    pool: Pool
    nodes: int
    slices: dict[str, int]
    """Extended resource -> count that its nodes offer now."""
    usd_per_hour: float | None
    """Cost of its nodes now; None where a price is unknown."""
    pod: str
    """The sample pod: phase and node, or why none was started."""
    running: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "pool": self.pool.name,
            "nodes": self.nodes,
            "slices": self.slices,
            "usdPerHour": self.usd_per_hour,
            "pod": self.pod,
            "running": self.running,
        }


def run(plan: Plan, api: KubeApi, report: Callable[[str], None]) -> list[PoolOnCluster]:
    """Apply one job per pool, wait until each pod runs or five minutes have passed, and say what is there.

    Raises GpupoolError where the environment was not applied to the cluster.
    """
    for pool in plan.pools:
        tenant = _tenant(plan, pool)
        if tenant is None:
            continue
        if api.get("v1", "Namespace", tenant.namespace) is None:
            raise GpupoolError(
                f"namespace {tenant.namespace} does not exist; apply the environment first: gpupool up "
                f"{plan.environment}"
            )
        _ensure(api, _job(plan, pool, tenant))
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        states = pool_states(plan, api)
        waiting = [state.pool.name for state in states if not state.running and _tenant(plan, state.pool)]
        if not waiting or time.monotonic() > deadline:
            return states
        report(f"waiting for pods on {', '.join(waiting)}")
        time.sleep(_POLL_S)


def _ensure(api: KubeApi, job: dict[str, Any]) -> None:
    """Have this job and no other sample on the pool.

    A job can't be changed, so its name is made of its content, and one of an earlier shape of the pool
    (another resource, taint or tenant) makes room.
    """
    wanted = (job["metadata"]["namespace"], job["metadata"]["name"])
    for other in api.list("batch/v1", "Job", selector=f"{LABEL}={job['metadata']['labels'][LABEL]}"):
        namespace, name = other["metadata"]["namespace"], other["metadata"]["name"]
        if (namespace, name) != wanted:
            api.delete("batch/v1", "Job", name, namespace)
    api.apply(job, _MANAGER, force=True)


def pool_states(plan: Plan, api: KubeApi) -> list[PoolOnCluster]:
    """What every pool has now; nothing is changed."""
    nodes, pods = api.list("v1", "Node"), api.list("v1", "Pod", selector=LABEL)
    return [_state(plan, pool, nodes, pods) for pool in plan.pools]


def _tenant(plan: Plan, pool: Pool) -> Tenant | None:
    """The first tenant that may use the pool; None where none may."""
    return next((tenant for tenant in plan.tenants if pool.name in tenant.grants), None)


def _job(plan: Plan, pool: Pool, tenant: Tenant) -> dict[str, Any]:
    resource = next(iter(pool.slices_per_node))
    fields = pod_fields(pool, resource, priority_class=own_class(plan, tenant, pool.name))
    labels = {LABEL: pool.name, **fields.labels}
    pod = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": _DEADLINE_S,
        **fields.spec,
        **restricted_pod.POD,
        "containers": [
            {
                "name": "sample",
                **restricted_pod.CONTAINER,
                "resources": {
                    "requests": {"cpu": "100m", "memory": "64Mi"},
                    "limits": {"memory": "64Mi", **fields.limits},
                },
            }
        ],
    }
    annotations = {"gpupool.dev/simulated-duration": _RUNS, **fields.annotations}
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": content_name("sample", template),
            "namespace": tenant.namespace,
            "labels": labels,
        },
        "spec": {
            "backoffLimit": 1,
            "activeDeadlineSeconds": _DEADLINE_S,
            "ttlSecondsAfterFinished": 60,
            "template": template,
        },
    }


def _state(plan: Plan, pool: Pool, nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> PoolOnCluster:
    ours = [node for node in nodes if node["metadata"].get("labels", {}).get(POOL_LABEL) == pool.name]
    offered = [node.get("status", {}).get("allocatable", {}) for node in ours]
    slices = {name: sum(int(each.get(name, 0)) for each in offered) for name in pool.slices_per_node}
    tenant = _tenant(plan, pool)
    # The pod of an earlier shape runs on for a moment after its job is gone: it proves nothing.
    wanted = _job(plan, pool, tenant)["metadata"]["name"] if tenant else ""
    found = [
        pod
        for pod in pods
        if pod["metadata"]["labels"].get(_JOB) == wanted and "deletionTimestamp" not in pod["metadata"]
    ]
    alive = next((pod for pod in found if pod["status"].get("phase") == "Running"), None)
    if alive is not None:
        said = f"Running on {alive['spec']['nodeName']}"
    elif found:
        said = f"{found[0]['status'].get('phase', 'Pending')}: {_why(found[0])}"
    else:
        said = "not created yet" if tenant else "no tenant may use the pool"
    return PoolOnCluster(pool, len(ours), slices, _price(pool, ours), said, alive is not None)


def _why(pod: dict[str, Any]) -> str:
    conditions = pod["status"].get("conditions", [])
    messages = [condition["message"] for condition in conditions if condition.get("message")]
    return messages[0] if messages else "waiting"


def _price(pool: Pool, nodes: list[dict[str, Any]]) -> float | None:
    """USD per hour of `nodes`, by their instance type and capacity type."""
    machines = {machine.instance_type: machine for machine in pool.machines}
    total = 0.0
    for node in nodes:
        labels = node["metadata"]["labels"]
        machine = machines.get(labels.get("node.kubernetes.io/instance-type")) or machines.get(None)
        if machine is None:
            return None
        spot = labels.get("karpenter.sh/capacity-type") == "spot"
        price = machine.spot_usd_per_hour if spot else machine.usd_per_hour
        if price is None:
            return None
        total += price
    return round(total, 4)
