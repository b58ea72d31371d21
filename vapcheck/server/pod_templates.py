"""The pods that workloads will make, as their controllers would create them.

It finds and names them. It must not judge them, nor guess at pods of which the workload gives only parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vapcheck.manifests.objects import mapping_in

Body = dict[str, Any]
WORKLOADS = {
    ("apps", "Deployment"): ("spec.template",),
    ("apps", "StatefulSet"): ("spec.template",),
    ("apps", "DaemonSet"): ("spec.template",),
    ("apps", "ReplicaSet"): ("spec.template",),
    ("", "ReplicationController"): ("spec.template",),
    ("batch", "Job"): ("spec.template",),
    ("batch", "CronJob"): ("spec.jobTemplate.spec.template",),
    ("ray.io", "RayCluster"): ("spec.headGroupSpec.template", "spec.workerGroupSpecs.*.template"),
    ("kubeflow.org", "PyTorchJob"): ("spec.pytorchReplicaSpecs.*.template",),
}
"""Group and kind of what makes pods, and where in it they are; `*` is every item of a list or an object. Only
kinds whose templates are whole: of a SparkApplication or an Argo Workflow, most of the pod comes from other
fields."""
_HASH = "xxxxxxxxxx"
"""Stands for the hash or time that a controller puts into names."""


def pod_templates(body: Body) -> list[tuple[str, Body]]:
    """(path, Pod) for each pod template of a workload; none for other kinds and broken ones.

    The Pod has the workload's namespace, the template's labels and annotations, and the name prefix that its
    controller gives it: of the ReplicaSet for a Deployment, `name-0` for a StatefulSet.
    """
    kind = body.get("kind")
    if not isinstance(kind, str):
        return []
    key = (str(body.get("apiVersion", "")).rpartition("/")[0], kind)
    return [
        (at, _pod(kind, body, template))
        for path in WORKLOADS.get(key, ())
        for at, template in _at(body, path.split("."), "")
        if isinstance(template.get("spec"), dict)
    ]


def _at(value: Any, keys: list[str], at: str) -> Iterator[tuple[str, Body]]:
    """(path, object) of what is at these keys."""
    if not keys:
        if isinstance(value, dict):
            yield at, value
    elif keys[0] != "*":
        if isinstance(value, dict):
            yield from _at(value.get(keys[0]), keys[1:], f"{at}.{keys[0]}" if at else keys[0])
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _at(item, keys[1:], f"{at}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _at(item, keys[1:], f"{at}.{name}")


def _pod(kind: str, body: Body, template: Body) -> Body:
    owner, given = mapping_in(body, "metadata"), mapping_in(template, "metadata")
    name = owner.get("name") or f"{owner.get('generateName', '')}xxxxx"
    metadata: Body = {"name": f"{name}-0"} if kind == "StatefulSet" else {"generateName": _prefix(kind, name)}
    for source, keys in ((owner, ("namespace",)), (given, ("labels", "annotations", "finalizers"))):
        metadata.update({key: source[key] for key in keys if source.get(key)})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _prefix(kind: str, name: str) -> str:
    if kind in ("Deployment", "CronJob"):
        return f"{name}-{_HASH}-"
    return f"{name}-"
