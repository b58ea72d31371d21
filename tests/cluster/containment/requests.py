"""What a tenant asks of the API server in these tests, written short: a row of YAML becomes the request.

A row has one of `pod`, `job`, `cronjob`, `deployment`, `service`, `object` or `path`, and says what of it is
not as usual. It knows nothing of verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.plan.priority_classes import own_class
from gpupool.live.cluster.kube_api import JSON, MERGE, STRATEGIC
from tests.environment_files import plan_of

Object = dict[str, Any]
_FILE = yaml.safe_load(Path(__file__).with_name("environment.yaml").read_text(encoding="utf-8"))
PLAN = plan_of({**_FILE, "metadata": {"name": "random"}})
IMAGE = "registry.example/ml/work:1"
SLICES: dict[str, tuple[str, Object]] = {
    "notebooks": ("nvidia.com/gpu", {"key": "gpupool.dev/pool", "value": "notebooks"}),
    "shared": ("nvidia.com/gpu", {"key": "gpu", "value": "true"}),
    "inference": ("nvidia.com/mig-2g.20gb", {"key": "gpu", "value": "mig"}),
    "training": ("nvidia.com/gpu", {"key": "gpupool.dev/pool", "value": "training"}),
    "batch": ("nvidia.com/gpu", {"key": "gpupool.dev/pool", "value": "batch"}),
    "open": ("nvidia.com/gpu", {}),
}
"""Pool -> what a pod asks for there, and the toleration that it needs."""
SHARES = {"gpupool.dev/shares-gpu": "true"}
"""The label of pods on GPUs that may be lent whole."""
_KINDS = {
    "job": ("batch/v1", "Job", "jobs"),
    "cronjob": ("batch/v1", "CronJob", "cronjobs"),
    "deployment": ("apps/v1", "Deployment", "deployments"),
    "service": ("v1", "Service", "services"),
}
_PLURALS = {
    "Pod": "pods",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "StatefulSet": "statefulsets",
    "Deployment": "deployments",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Service": "services",
    "Job": "jobs",
    "CronJob": "cronjobs",
    "DaemonSet": "daemonsets",
    "ReplicaSet": "replicasets",
    "ReplicationController": "replicationcontrollers",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
}


@dataclass(frozen=True)
class Request:
    """One request of a tenant, and those that must have been taken before it."""

    method: str
    path: str
    body: Object | None
    content_type: str = "application/json"
    before: tuple[Request, ...] = ()

    @property
    def makes(self) -> str | None:
        """Path of the object that the request makes; None where it makes none."""
        if self.method != "POST" or self.body is None:
            return None
        return f"{self.path}/{self.body['metadata']['name']}"


def request(row: Object, number: int, namespace: str) -> Request:
    """The request of `row`. `number` makes its object's name; a `then` patches what the rest has made."""
    if "path" in row:
        path = row["path"].replace("NAMESPACE", namespace)
        content = MERGE if row.get("verb") == "PATCH" else JSON
        return Request(row.get("verb", "POST"), path, row.get("body"), content)
    name = f"r{number}"
    body = _body(row, name, namespace)
    group = f"/apis/{body['apiVersion']}" if "/" in body["apiVersion"] else f"/api/{body['apiVersion']}"
    made = Request("POST", f"{group}/namespaces/{namespace}/{_plural(body['kind'])}", body)
    if "then" not in row:
        return made
    path = f"{made.path}/{name}"
    if row["then"] == "delete":
        return Request("DELETE", path, None, before=(made,))
    return Request("PATCH", path, row["then"], STRATEGIC, (made,))


def _plural(kind: str) -> str:
    return _PLURALS.get(kind) or next(plural for _, named, plural in _KINDS.values() if named == kind)


def _body(row: Object, name: str, namespace: str) -> Object:
    metadata: Object = {"name": name, "namespace": namespace, **row.get("metadata", {})}
    if "pod" in row and row.get("slice"):
        metadata["labels"] = {**SHARES, **metadata.get("labels", {})}
    if "object" in row:
        body: Object = {**row["object"]}
        return {**body, "metadata": metadata}
    if "pod" in row:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": _pod(row, row["pod"], namespace),
        }
    word = next(word for word in _KINDS if word in row)
    version, kind, _ = _KINDS[word]
    spec: Object = dict(row[word] or {})
    if kind == "Service":
        spec = {"ports": [{"port": 80}], **spec}
    elif kind == "Deployment":
        labels = {"app": name}
        template = {
            "metadata": {"labels": {**SHARES, **labels}},
            "spec": _pod(row, row.get("template"), namespace),
        }
        spec = {"selector": {"matchLabels": labels}, "template": template, **spec}
    else:
        pod = {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": 600,
            **_pod(row, row.get("template"), namespace),
        }
        pod = {key: value for key, value in pod.items() if value is not None}
        limits = {"activeDeadlineSeconds": 600, "ttlSecondsAfterFinished": 600, "backoffLimit": 0}
        spec = {**limits, "template": {"metadata": {"labels": SHARES}, "spec": pod}, **spec}
        spec = {key: value for key, value in spec.items() if value is not None}
        if kind == "CronJob":
            spec = {"schedule": "0 3 1 1 *", "jobTemplate": {"spec": spec}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _pod(row: Object, given: Object | None, namespace: str) -> Object:
    """A pod's spec: with `slice`, one that asks as it should for a slice of that pool."""
    spec: Object = {"terminationGracePeriodSeconds": 0, **(given or {})}
    container: Object = {"name": "main", "image": IMAGE, **row.get("container", {})}
    pool = row.get("slice")
    if pool:
        resource, toleration = SLICES[pool]
        resources = container.get("resources", {})
        limits = {resource: "1", **resources.get("limits", {})}
        container["resources"] = {**resources, "limits": limits}
        spec["nodeSelector"] = {"gpupool.dev/pool": pool, **spec.get("nodeSelector", {})}
        owner = next((tenant for tenant in PLAN.tenants if tenant.namespace == namespace), None)
        counted = own_class(PLAN, owner, pool) if owner and pool in owner.grants else None
        if counted:
            spec.setdefault("priorityClassName", counted)
        if toleration:
            spec["tolerations"] = [toleration, *spec.get("tolerations", [])]
    if "containers" not in spec:
        spec["containers"] = [container]
    return spec
