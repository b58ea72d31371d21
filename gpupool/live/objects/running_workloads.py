"""What runs in the cluster and would be refused, by the environment's policies, when it is started again.

A policy judges requests: what was there before it stays until a node is drained or an image changes, and is
gone then. Judged are the pods, one of each owner, as the owner's controller would send it again, by the
policies, parameters and namespaces of the file. Two list requests; changes nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.environment.plan.model import Plan
from gpupool.generators.manifest import Bundle
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.live_objects import as_sent, ended
from gpupool.policy import gate as policy_gate

Object = Mapping[str, Any]

_MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a pod that a kubelet starts from a file, whatever the API server says."""
_HASH_LABEL = "pod-template-hash"
"""What a Deployment ends the names of its ReplicaSets with."""
_CONTROLLERS = {
    "DaemonSet": "daemon-set-controller",
    "Job": "job-controller",
    "ReplicaSet": "replicaset-controller",
    "ReplicationController": "replication-controller",
    "StatefulSet": "statefulset-controller",
}
"""Accounts of kube-system that make an owner's pods (Kubernetes documentation, RBAC, controller roles)."""
_SHOWN = 3


@dataclass(frozen=True, slots=True, order=True)
class RunningWorkload:
    """What keeps pods running: their owner, or a pod without one."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Restarts:
    """What would become of everything that runs."""

    count: int
    """Workloads that were judged."""
    refused: Mapping[RunningWorkload, tuple[str, ...]]
    """Those that would not start again, each with the policies that refuse it."""

    @property
    def first(self) -> str:
        """The first few that are refused, each with the first policy that refuses it."""
        rows = [f"{workload} ({rules[0]})" for workload, rules in list(self.refused.items())[:_SHOWN]]
        more = len(self.refused) - len(rows)
        return ", ".join(rows) + (f" and {more} more" if more else "")


def restarts(api: KubeApi, plan: Plan, bundle: Bundle) -> Restarts:
    """Judge what runs. Raises ApiError where pods or namespaces may not be listed, and UnreachableError."""
    return judged(plan, bundle, api.list("v1", "Pod"), api.list("v1", "Namespace"))


def judged(plan: Plan, bundle: Bundle, pods: Iterable[Object], namespaces: Iterable[Object]) -> Restarts:
    """The same of pods and namespaces as the server has them."""
    from vapcheck import Compiler, Kinds, check, from_bodies, identity

    policies = policy_gate.documents_of(plan, bundle)
    policies = [document for document in policies if document.body.get("kind") != "Namespace"]
    policies += from_bodies(_namespaces(bundle, namespaces), "the cluster")
    makers: dict[str, dict[tuple[str, str], RunningWorkload]] = defaultdict(dict)
    bodies: dict[str, list[dict[str, Any]]] = defaultdict(list)
    judged_once = set[tuple[RunningWorkload, str]]()
    for pod in pods:
        metadata = pod["metadata"]
        gone = metadata.get("deletionTimestamp") or _MIRROR in (metadata.get("annotations") or {})
        owner, workload, shape = _owner(pod)
        if gone or ended(pod) or (workload, shape) in judged_once:
            continue
        judged_once.add((workload, shape))
        maker = _CONTROLLERS.get(owner, "")
        makers[maker][metadata["namespace"], metadata["name"]] = workload
        bodies[maker].append(_again(pod))
    refused: dict[RunningWorkload, dict[str, None]] = defaultdict(dict)
    compiler, kinds = Compiler(), Kinds.builtin(plan.cluster.kubernetes_version)
    for maker, objects in bodies.items():
        account = f"system:serviceaccount:kube-system:{maker}" if maker else ""
        report = check(
            from_bodies(objects, "the cluster"),
            policies=policies,
            kinds=kinds,
            user=identity(account, (), "", {}),
            compiler=compiler,
        )
        for finding in report.findings:
            thing = finding.object
            key = (thing.namespace or "", thing.name) if thing and thing.kind == "Pod" else ("", "")
            if finding.level == "deny" and key in makers[maker]:
                refused[makers[maker][key]][finding.rule] = None
    return Restarts(
        len({workload for workload, _ in judged_once}),
        {workload: tuple(rules) for workload, rules in sorted(refused.items())},
    )


def note(restarts_now: Restarts, environment: str) -> str | None:
    """What a preview says of it; None where all would start again."""
    if not restarts_now.refused:
        return None
    return (
        f"policies would refuse {len(restarts_now.refused)} of {restarts_now.count} running workloads at "
        f"their next restart: {restarts_now.first}; see gpupool doctor {environment}"
    )


def _owner(pod: Object) -> tuple[str, RunningWorkload, str]:
    """The kind that makes the pod, the workload that people know, and which of its templates it is of."""
    metadata = pod["metadata"]
    owners = metadata.get("ownerReferences") or ()
    owner = next((row for row in owners if row.get("controller")), None)
    if owner is None:
        return "", RunningWorkload(metadata["namespace"], "Pod", metadata["name"]), ""
    kind, name = owner["kind"], owner["name"]
    shape = (metadata.get("labels") or {}).get(_HASH_LABEL, "")
    if kind == "ReplicaSet" and shape and name.endswith(f"-{shape}"):
        return (
            kind,
            RunningWorkload(metadata["namespace"], "Deployment", name.removesuffix(f"-{shape}")),
            shape,
        )
    return kind, RunningWorkload(metadata["namespace"], kind, name), shape


_TOKEN = re.compile(r"kube-api-access-[a-z0-9]{5}")
"""The volume with the account's token, which the API server adds to a pod."""


def _again(pod: Object) -> dict[str, Any]:
    """The pod as its controller sends it: without what scheduler, kubelet and API server have added."""
    body = as_sent(pod)
    spec = {
        key: value for key, value in body["spec"].items() if key not in ("nodeName", "ephemeralContainers")
    }
    added = {volume["name"] for volume in spec.get("volumes") or () if _TOKEN.fullmatch(volume["name"])}
    spec["volumes"] = [volume for volume in spec.get("volumes") or () if volume["name"] not in added]
    for part in ("containers", "initContainers"):
        if part in spec:
            spec[part] = [_without_mounts(container, added) for container in spec[part]]
    return {**body, "spec": spec}


def _without_mounts(container: Object, volumes: set[str]) -> dict[str, Any]:
    mounts = [mount for mount in container.get("volumeMounts") or () if mount["name"] not in volumes]
    return {**container, "volumeMounts": mounts}


def _namespaces(bundle: Bundle, live: Iterable[Object]) -> list[dict[str, Any]]:
    """The cluster's namespaces with the labels that the file adds, and those that the file makes."""
    ours = {manifest.name: dict(manifest.body) for manifest in bundle if manifest.kind == "Namespace"}
    for namespace in live:
        body = as_sent(namespace)
        planned = ours.get(body["metadata"]["name"], {"metadata": {}})["metadata"]
        labels = {**(body["metadata"].get("labels") or {}), **(planned.get("labels") or {})}
        ours[body["metadata"]["name"]] = {**body, "metadata": {**body["metadata"], "labels": labels}}
    return list(ours.values())
