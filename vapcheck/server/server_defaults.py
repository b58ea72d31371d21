"""Defaults of the API server that depend on more than one field (Kubernetes 1.36, pkg/apis/*/v1/defaults.go).

Each hook is given an object of its definition, already in canonical form and with its plain defaults, and may
change it: it is fresh. Plain defaults are data (admission_defaults.json), and so are those that one minor
alone has ("only" in it). Compared with servers of every known minor (tests/vapcheck/minors).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from vapcheck.server.canonical_text import add, larger

Fields = dict[str, Any]
Hook = Callable[[Fields], None]
_TAG = re.compile(r":([A-Za-z0-9_][\w.-]*)$", re.ASCII)
_DIGEST = re.compile(r"@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}$", re.ASCII)


def pull_policy(image: str) -> str:
    """Of an image without imagePullPolicy: Always for `latest`, said or not, unless a digest pins it."""
    pinned = _DIGEST.search(image)
    name = image[: pinned.start()] if pinned else image
    tag = _TAG.search(name.rpartition("/")[2])
    if tag is None:
        return "IfNotPresent" if pinned or not image else "Always"
    return "Always" if tag[1] == "latest" else "IfNotPresent"


def _container(out: Fields) -> None:
    if "imagePullPolicy" not in out:
        out["imagePullPolicy"] = pull_policy(out.get("image", ""))


def _volume(out: Fields) -> None:
    if len(out) == 1:
        out["emptyDir"] = {}
    image = out.get("image")
    if isinstance(image, dict) and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference", ""))


def without_image_volumes(spec: Fields) -> None:
    """Where the feature gate ImageVolume is off, such volumes go, and with them their mounts (pkg/api/pod,
    dropImageVolumes)."""
    images = {row["name"] for row in spec.get("volumes") or () if "image" in row}
    if not images:
        return
    _keep(spec, "volumes", lambda row: row["name"] not in images)
    for container in [*containers_of(spec), *(spec.get("ephemeralContainers") or ())]:
        _keep(container, "volumeMounts", lambda row: row["name"] not in images)


def _keep(out: Fields, key: str, keeps: Callable[[Fields], bool]) -> None:
    """Leaves in a list what is to stay in it; without the list where that is nothing."""
    rows = [row for row in out.get(key) or () if keeps(row)]
    if rows:
        out[key] = rows
    else:
        out.pop(key, None)


def containers_of(spec: Fields) -> list[Fields]:
    """The containers of a pod and those that start before them."""
    rows = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [row for row in rows if isinstance(row, dict)]


def _pod(out: Fields) -> None:
    spec = out["spec"]
    if not isinstance(spec, dict):
        return
    spec.setdefault("enableServiceLinks", True)
    for container in containers_of(spec):
        if not isinstance(container.get("resources"), dict):
            continue
        limits = container["resources"].get("limits")
        if limits:
            container["resources"]["requests"] = limits | (container["resources"].get("requests") or {})
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]
    _pod_level_requests(spec)


def _pod_level_requests(spec: Fields) -> None:
    """Requests of the pod as a whole, when it has limits as a whole: what its containers ask for together,
    and the limit for what none asks for."""
    whole = spec.get("resources")
    limits = whole.get("limits") if isinstance(whole, dict) else None
    if not isinstance(whole, dict) or not limits:
        return
    asked = {key: value for key, value in _together(spec).items() if key in ("cpu", "memory")}
    requests = {**limits, **asked, **(whole.get("requests") or {})}
    whole["requests"] = {
        key: value
        for key, value in requests.items()
        if key in ("cpu", "memory") or key.startswith("hugepages-") or key in (whole.get("requests") or {})
    }


def _together(spec: Fields) -> dict[str, str]:
    """What the containers of a pod request at once at most; sidecars run beside all that come after them."""
    total: dict[str, str] = {}
    for container in spec.get("containers") or ():
        total = add(total, _requests(container))
    sidecars: dict[str, str] = {}
    peak: dict[str, str] = {}
    for container in spec.get("initContainers") or ():
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            total, sidecars = add(total, asked), add(sidecars, asked)
            peak = larger(peak, sidecars)
        else:
            peak = larger(peak, add(asked, sidecars))
    return larger(total, peak)


def _requests(container: Fields) -> dict[str, str]:
    return (container.get("resources") or {}).get("requests") or {}


def _service_port(out: Fields) -> None:
    if out.get("targetPort") in (0, "", None):
        out["targetPort"] = out.get("port", 0)


def _service_spec(out: Fields) -> None:
    kind = out["type"]
    if out["sessionAffinity"] == "None":
        out.pop("sessionAffinityConfig", None)
    elif out["sessionAffinity"] == "ClientIP":
        client = (out.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            out["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    if kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and out.get("externalIPs")):
        out.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        out.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        out.setdefault("allocateLoadBalancerNodePorts", True)


def _rolling(**parts: Any) -> Callable[[Fields], None]:
    """For strategies that are RollingUpdate: the parts of rollingUpdate that are missing."""

    def hook(out: Fields) -> None:
        if out["type"] == "RollingUpdate":
            out["rollingUpdate"] = {**parts, **(out.get("rollingUpdate") or {})}

    return hook


def stateful_strategy(out: Fields, rolling: Callable[[Fields], Fields]) -> None:
    """`rolling`: gives a rollingUpdate its defaults."""
    if "type" not in out:
        out["type"] = "RollingUpdate"
        out.setdefault("rollingUpdate", rolling({}))


def _job(out: Fields) -> None:
    spec = out["spec"]
    labels = spec["template"]["metadata"].get("labels")
    if labels and not out["metadata"].get("labels"):
        out["metadata"]["labels"] = labels
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    for key, value in (
        ("parallelism", 1),
        ("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"),
        ("manualSelector", False),
    ):
        spec.setdefault(key, value)


def _stateful_set_spec(out: Fields) -> None:
    out["volumeClaimTemplates"] = [
        {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **claim, "status": {"phase": "Pending"}}
        for claim in out.get("volumeClaimTemplates") or ()
    ]
    if not out["volumeClaimTemplates"]:
        del out["volumeClaimTemplates"]


def _custom_resource_definition(out: Fields) -> None:
    names = out["spec"]["names"]
    kind = names.get("kind") or ""
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    stored = [row["name"] for row in out["spec"].get("versions") or () if row.get("storage")]
    out["status"] = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored,
    }


def _replication_controller(out: Fields) -> None:
    labels = ((out["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not out["spec"].get("selector"):
            out["spec"]["selector"] = labels
        if not out["metadata"].get("labels"):
            out["metadata"]["labels"] = labels


def _limit_range_item(out: Fields) -> None:
    if out.get("type") == "Container":
        default = (out.get("max") or {}) | (out.get("default") or {})
        request = (out.get("min") or {}) | default | (out.get("defaultRequest") or {})
        out.update(
            {key: value for key, value in (("default", default), ("defaultRequest", request)) if value}
        )


def _network_policy_spec(out: Fields) -> None:
    if not out.get("policyTypes"):
        out["policyTypes"] = ["Ingress", *(["Egress"] if out.get("egress") else [])]


def _namespace(out: Fields) -> None:
    name = out["metadata"].get("name")
    if name:
        out["metadata"]["labels"] = (out["metadata"].get("labels") or {}) | {
            "kubernetes.io/metadata.name": name
        }


def _node(out: Fields) -> None:
    status = out["status"]
    if status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = status["capacity"]


def _subject(out: Fields) -> None:
    if "apiGroup" not in out and out.get("kind") in ("User", "Group"):
        out["apiGroup"] = "rbac.authorization.k8s.io"


def _device_request(out: Fields) -> None:
    if out["allocationMode"] == "ExactCount":
        out.setdefault("count", 1)


def _secret(out: Fields) -> None:
    """stringData is written into data; encoding it is only for those who read it."""
    import base64

    plain = out.pop("stringData", None)
    if isinstance(plain, dict):
        coded = {key: base64.b64encode(str(text).encode()).decode() for key, text in plain.items()}
        out["data"] = (out.get("data") or {}) | coded


HOOKS: dict[str, Hook] = {
    "core.v1.Container": _container,
    "core.v1.EphemeralContainer": _container,
    "core.v1.Volume": _volume,
    "core.v1.Pod": _pod,
    "core.v1.ServicePort": _service_port,
    "core.v1.ServiceSpec": _service_spec,
    "core.v1.ReplicationController": _replication_controller,
    "core.v1.LimitRangeItem": _limit_range_item,
    "core.v1.Namespace": _namespace,
    "core.v1.Node": _node,
    "core.v1.Secret": _secret,
    "apps.v1.StatefulSetSpec": _stateful_set_spec,
    "apiextensions.v1.CustomResourceDefinition": _custom_resource_definition,
    "apps.v1.DeploymentStrategy": _rolling(maxUnavailable="25%", maxSurge="25%"),
    "apps.v1.DaemonSetUpdateStrategy": _rolling(maxUnavailable=1, maxSurge=0),
    "batch.v1.Job": _job,
    "networking.v1.NetworkPolicySpec": _network_policy_spec,
    "rbac.v1.Subject": _subject,
    "resource.v1.ExactDeviceRequest": _device_request,
    "resource.v1.DeviceSubRequest": _device_request,
}
"""By definition."""
