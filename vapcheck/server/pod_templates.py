"""The pods that workloads will make, as their controllers would create them."""

from __future__ import annotations

from typing import Any

from vapcheck.manifests.objects import mapping_in

Body = dict[str, Any]
WORKLOADS = {
    ("apps", "Deployment"): "spec.template",
    ("apps", "StatefulSet"): "spec.template",
    ("apps", "DaemonSet"): "spec.template",
    ("apps", "ReplicaSet"): "spec.template",
    ("", "ReplicationController"): "spec.template",
    ("batch", "Job"): "spec.template",
    ("batch", "CronJob"): "spec.jobTemplate.spec.template",
}
"""Group and kind of what makes pods, and where in it the pod is."""
_HASH = "xxxxxxxxxx"
"""Stands for the hash or time that a controller puts into names."""


def pod_templates(body: Body) -> list[tuple[str, Body]]:
    """(path, Pod) for each pod template of a workload; none for other kinds and broken ones.

    The Pod has the workload's namespace, the template's labels and annotations, and the name prefix that its
    controller gives it: of the ReplicaSet for a Deployment, `name-0` for a StatefulSet.
    """
    kind = body.get("kind")
    group = str(body.get("apiVersion", "")).rpartition("/")[0]
    path = WORKLOADS.get((group, kind)) if isinstance(kind, str) else None
    if path is None or not isinstance(kind, str):
        return []
    template = mapping_in(body, *path.split("."))
    if not isinstance(template.get("spec"), dict):
        return []
    return [(path, _pod(kind, body, template))]


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
