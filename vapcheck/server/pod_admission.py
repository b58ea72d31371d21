"""What the API server's own admission plugins do to a new pod before policies see it.

The plugins that are on by default in Kubernetes 1.36 and change pods: LimitRanger, ServiceAccount, Priority
and DefaultTolerationSeconds. It works on a fresh object in canonical form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vapcheck.server.server_defaults import containers_of

Body = dict[str, Any]
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a folder
_TOKEN_VOLUME = "kube-api-access-xxxxx"  # noqa: S105 - a name; the server's ends at random
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_BOTH = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The objects of a bundle that decide how its pods are admitted."""

    priority_classes: Mapping[str, Body] = field(default_factory=dict)
    service_accounts: Mapping[tuple[str, str], Body] = field(default_factory=dict)
    """By namespace and name."""
    limits: Mapping[str, tuple[Body, ...]] = field(default_factory=dict)
    """Items of LimitRanges, with their defaults, by namespace."""

    @classmethod
    def of(cls, bodies: Iterable[Body]) -> Surroundings:
        """From objects as they are admitted."""
        classes: dict[str, Body] = {}
        accounts: dict[tuple[str, str], Body] = {}
        limits: dict[str, tuple[Body, ...]] = {}
        for body in bodies:
            metadata = body.get("metadata") or {}
            name, namespace = metadata.get("name", ""), metadata.get("namespace") or "default"
            match body.get("apiVersion"), body.get("kind"):
                case "scheduling.k8s.io/v1", "PriorityClass":
                    classes[name] = body
                case "v1", "ServiceAccount":
                    accounts[namespace, name] = body
                case "v1", "LimitRange":
                    items = (body.get("spec") or {}).get("limits") or ()
                    found = tuple(
                        item for item in items if isinstance(item, dict) and item.get("type") == "Container"
                    )
                    limits[namespace] = limits.get(namespace, ()) + found
        return cls(classes, accounts, limits)


def admit_pod(pod: Body, surroundings: Surroundings | None) -> None:
    """Change `pod` as the plugins would. What `surroundings` doesn't have is taken to be the default."""
    around = surroundings or Surroundings()
    spec, namespace = pod["spec"], pod["metadata"].get("namespace", "default")
    containers = containers_of(spec)
    for item in around.limits.get(namespace, ()):
        said: list[str] = []
        for key, words in (("containers", "container"), ("initContainers", "init container")):
            for container in spec.get(key) or ():
                said += _limit(container, item, f"{words} {container.get('name', '')}")
        if said:
            text = f"LimitRanger plugin set: {'; '.join(said)}"
            annotations = pod["metadata"].get("annotations") or {}
            pod["metadata"]["annotations"] = {**annotations, "kubernetes.io/limit-ranger": text}
    _service_account(spec, containers, around.service_accounts, namespace)
    _priority(spec, around.priority_classes)
    _tolerations(spec)


def _limit(container: Body, item: Body, named: str) -> list[str]:
    """LimitRanger: requests and limits that the container doesn't have; what it writes into an annotation."""
    resources, said = container.setdefault("resources", {}), []
    for part, defaults in (("requests", item.get("defaultRequest")), ("limits", item.get("default"))):
        given = resources.get(part) or {}
        missing = sorted(set(defaults or ()) - set(given))
        if missing and defaults:
            resources[part] = {**defaults, **given}
            said.append(f"{', '.join(missing)} {part.removesuffix('s')} for {named}")
    return said


def _service_account(
    spec: Body, containers: list[Body], accounts: Mapping[tuple[str, str], Body], namespace: str
) -> None:
    """ServiceAccount: the account's name in both fields, its pull secrets, and its token as a volume."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = accounts.get((namespace, name), {})
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = account["imagePullSecrets"]
    mount = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True))
    if not mount:
        return
    added = False
    for container in containers:
        mounts = container.get("volumeMounts") or []
        if all(row.get("mountPath") != TOKEN_PATH for row in mounts if isinstance(row, dict)):
            row = {"name": _TOKEN_VOLUME, "readOnly": True, "mountPath": TOKEN_PATH}
            container["volumeMounts"] = [*mounts, row]
            added = True
    if added:
        spec["volumes"] = [*(spec.get("volumes") or ()), _token_volume()]


def _token_volume() -> Body:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources: list[Body] = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
    ]
    return {"name": _TOKEN_VOLUME, "projected": {"sources": sources, "defaultMode": 420}}


def _priority(spec: Body, classes: Mapping[str, Body]) -> None:
    """Priority: the number and preemption policy of the class; without one, of the global default."""
    name = spec.get("priorityClassName")
    if not name:
        defaults = [body for body in classes.values() if body.get("globalDefault")]
        chosen = min(defaults, key=lambda body: body.get("value", 0), default=None)
        if chosen is not None:
            name = spec["priorityClassName"] = chosen["metadata"]["name"]
    known = classes.get(name or "")
    if known is not None:
        spec["priority"] = known.get("value", 0)
        spec["preemptionPolicy"] = known.get("preemptionPolicy") or "PreemptLowerPriority"
    elif not name or name in _SYSTEM_PRIORITIES:
        spec["priority"] = _SYSTEM_PRIORITIES.get(name or "", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    # A class that isn't in the bundle has an unknown number.


def _tolerations(spec: Body) -> None:
    """DefaultTolerationSeconds: five minutes on nodes that stop answering."""
    given = [row for row in spec.get("tolerations") or () if isinstance(row, dict)]
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in _NODE_TAINTS
        if not any(_covers(row, key) for row in given)
    ]
    if added:
        spec["tolerations"] = [*given, *added]


def _covers(row: Body, key: str) -> bool:
    return row.get("key", "") in (key, "") and row.get("effect", "") in ("NoExecute", "")


def quality_of_service(spec: Body) -> str:
    """The class that the server puts into the status of a new pod: Guaranteed, Burstable or BestEffort."""
    resources = [row.get("resources") or {} for row in containers_of(spec)]
    if isinstance(spec.get("resources"), dict):
        resources = [spec["resources"]]
    asked = [
        {
            part: {key: row[part][key] for key in _BOTH if row.get(part, {}).get(key, "0") != "0"}
            for part in ("requests", "limits")
        }
        for row in resources
    ]
    if not any(row["requests"] or row["limits"] for row in asked):
        return "BestEffort"
    if all(len(row["limits"]) == len(_BOTH) and row["requests"] == row["limits"] for row in asked):
        return "Guaranteed"
    return "Burstable"
