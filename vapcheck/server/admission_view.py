"""Objects as validating admission sees them: decoded, defaulted, changed by the built-in admission plugins,
and with the fields that the server fills in.

Compared with a real API server (1.36, its default plugins) for every kind that has defaults. What depends on
a cluster's other objects is seen as far as `Surroundings` has them. Unknown values have placeholders that
never change (uid, random parts of names, addresses) or is left out (managedFields).
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vapcheck.server.canonical_form import DOUBTS, MISTYPED, Convert, converter
from vapcheck.server.decoding import Doubt, doubts_about, doubts_about_metadata
from vapcheck.server.kinds import Kinds, Resource
from vapcheck.server.pod_admission import Surroundings, admit_pod, quality_of_service
from vapcheck.server.pod_templates import pod_templates
from vapcheck.server.schema import builtin

Body = dict[str, Any]
UID = "00000000-0000-0000-0000-000000000000"
"""Stands for the uid that a new object gets."""
CLUSTER_IP = "10.0.0.0"
"""Stands for the address that a Service is given."""
NODE_PORT = 30000
"""Stands for the port that the first port of a Service is given on nodes; the next ones follow."""
RANDOM = "xxxxx"
"""Stands for the five characters that the server appends to generateName."""
_STARTED = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
_METADATA = builtin("meta.v1.ObjectMeta")
_KEEP_STATUS = frozenset({"Node", "ComponentStatus"})
"""Kinds whose status may be given when they are created."""
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@functools.cache
def _created() -> Body:
    """What the server writes into new objects, by kind: generation, status, finalizers, annotations."""
    found: Body = json.loads((Path(__file__).parent / "admission_created.json").read_bytes())
    found["generation"] = frozenset(found["generation"])
    return found


def as_admitted(
    body: Body,
    kinds: Kinds,
    *,
    operation: str,
    surroundings: Surroundings | None = None,
    doubts: list[Doubt] | None = None,
) -> Body:
    """`body` as policies see it as `object` when it is created or updated; `body` itself is not changed.

    Fields that the kind doesn't have are gone; they, and values that can't be read, are added to `doubts`.
    The object of a kind that isn't known comes with its metadata completed and else as it is.
    """
    api_version, kind = body.get("apiVersion", ""), body.get("kind", "")
    resource = kinds.resource(api_version, kind)
    schema = kinds.schema(api_version, kind)
    DOUBTS.any = False
    if schema is None:
        out = {**body, "metadata": _metadata(body.get("metadata") or {})}
        if doubts is not None and DOUBTS.any:
            doubts.extend(doubts_about_metadata(body, _METADATA))
    else:
        given = body.get("status")
        if given is not None and kind not in _KEEP_STATUS and resource and resource.drops_status:
            out = _converter(kinds, api_version, kind)({key: body[key] for key in body if key != "status"})
            dropped = schema.properties.get("status")
            if dropped is not None and dropped.name:
                converter(dropped)(given)  # the server reads it nonetheless
        else:
            out = _converter(kinds, api_version, kind)(body)
        if doubts is not None and DOUBTS.any:
            doubts.extend(doubts_about(body, schema))
        if not isinstance(out.get("metadata"), dict):
            out["metadata"] = {}
    _fill_metadata(out["metadata"], resource, operation)
    if schema is not None:
        with contextlib.suppress(*MISTYPED):
            _fill(out, body, surroundings, custom=not kinds.is_builtin(api_version, kind))
    return out


@functools.lru_cache(maxsize=512)
def _converter(kinds: Kinds, api_version: str, kind: str) -> Convert:
    schema = kinds.schema(api_version, kind)
    assert schema is not None
    return converter(schema)


def _metadata(value: Any) -> Body:
    found = converter(_METADATA)(value)
    return found if isinstance(found, dict) else {}


def _fill_metadata(metadata: Body, resource: Resource | None, operation: str) -> None:
    """What the server writes into the metadata of any object."""
    prefix = metadata.get("generateName")
    if not metadata.get("name") and prefix and isinstance(prefix, str):
        metadata["name"] = prefix + RANDOM
    if resource is None or resource.namespaced:
        if not metadata.get("namespace"):
            metadata["namespace"] = "default"
    else:
        metadata.pop("namespace", None)
    metadata["uid"] = UID
    metadata["creationTimestamp"] = _STARTED
    metadata.pop("managedFields", None)
    metadata.pop("selfLink", None)
    if operation == "CREATE":
        for key in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            metadata.pop(key, None)


def _fill(out: Body, body: Body, surroundings: Surroundings | None, *, custom: bool) -> None:
    """What the server writes into objects of one kind."""
    kind, metadata, created = out.get("kind", ""), out["metadata"], _created()
    if custom or kind in created["generation"]:
        metadata["generation"] = 1
    if custom or not isinstance(out.get("spec"), dict):
        return
    if kind in created["status"]:
        out["status"] = {**out["status"], **created["status"][kind]}
    for part in created["finalizers"].get(kind, ()):
        metadata["finalizers"] = [*(row for row in metadata.get("finalizers") or () if row != part), part]
    if kind in created["annotations"]:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **created["annotations"][kind]}
    special = _SPECIAL.get(kind)
    if special is not None:
        special(out, body, surroundings)


def _pod(out: Body, body: Body, surroundings: Surroundings | None) -> None:
    admit_pod(out, surroundings)
    given = body.get("status")
    known = given.get("qosClass") if isinstance(given, dict) else None
    out["status"]["qosClass"] = known or quality_of_service(out["spec"])
    if out["spec"].get("schedulingGates"):
        out["status"]["conditions"] = [{**_GATED, "lastTransitionTime": _STARTED}]


def _job(out: Body, _body: Body, _surroundings: Surroundings | None) -> None:
    """The selector and the labels that identify a Job's pods, which hold its uid."""
    spec, name = out["spec"], out["metadata"].get("name", "")
    if spec.get("manualSelector"):
        return
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}}
    own = {"controller-uid": UID, "job-name": name}
    labels = {**own, **{f"batch.kubernetes.io/{key}": value for key, value in own.items()}}
    metadata = spec["template"]["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}


def _service(out: Body, _body: Body, _surroundings: Surroundings | None) -> None:
    """Addresses and families of a cluster with IPv4 only; addresses that are allocated have a stand-in."""
    spec = out["spec"]
    if spec["type"] == "ExternalName":
        return
    if spec["type"] != "ClusterIP" and spec.get("allocateLoadBalancerNodePorts", True):
        for index, port in enumerate(spec.get("ports") or ()):
            port["nodePort"] = port.get("nodePort") or NODE_PORT + index
    spec.setdefault("clusterIP", CLUSTER_IP)
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _node(out: Body, _body: Body, _surroundings: Surroundings | None) -> None:
    """The taint of a node that isn't ready yet (admission plugin TaintNodesByCondition)."""
    taints = out["spec"].get("taints") or []
    if all(row.get("key") != _NOT_READY["key"] or row.get("effect") != "NoSchedule" for row in taints):
        out["spec"]["taints"] = [*taints, dict(_NOT_READY)]


def _volume(out: Body, _body: Body, _surroundings: Surroundings | None) -> None:
    out["status"]["lastPhaseTransitionTime"] = _STARTED


_SPECIAL: dict[str, Callable[[Body, Body, Surroundings | None], None]] = {
    "Pod": _pod,
    "Job": _job,
    "Service": _service,
    "Node": _node,
    "PersistentVolume": _volume,
}


__all__ = ["RANDOM", "UID", "Doubt", "Surroundings", "as_admitted", "pod_templates"]
