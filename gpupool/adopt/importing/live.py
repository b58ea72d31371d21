"""A live cluster -> its environment file: what is there is read once and converted like any other input.

For a cluster that gpupool made, the file gives the same objects, so that `gpupool assert` is
clean; what no object shows (weights, budgets, descriptions) is listed. Where the cluster keeps the file, as
its last good state or for the check that it runs itself, and that amounts to the very same objects, the file
itself is taken: it has all of that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import of_cluster
from gpupool.adopt.convert.draft import Choices
from gpupool.adopt.convert.operator_values import SHIPPED_MIG_MAP
from gpupool.adopt.importing import notes as import_notes
from gpupool.environment.plan.model import MANAGED_BY, SYSTEM_NAMESPACE, TAINTS_ANNOTATION, Plan
from gpupool.environment.plan.operator_place import operator_place
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.environment import OPERATOR_NAMESPACE
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source, value_at
from gpupool.findings import GpupoolError, SpecError
from gpupool.generators import assertion, generate
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.snapshot import ClusterSnapshot, Query, take
from gpupool.live.rollback import last_good

Object = dict[str, Any]
_EVERYWHERE = (
    *(("v1", "Namespace"), ("v1", "Node"), ("v1", "ResourceQuota"), ("nvidia.com/v1", "ClusterPolicy")),
    *(
        ("karpenter.sh/v1", "NodePool"),
        ("karpenter.sh/v1beta1", "NodePool"),
        ("karpenter.sh/v1alpha5", "Provisioner"),
    ),
    *(("karpenter.k8s.aws/v1", "EC2NodeClass"), ("karpenter.k8s.aws/v1beta1", "EC2NodeClass")),
    *(("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"), ("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass")),
    *(("karpenter.sh/v1alpha1", "NodeOverlay"), ("scheduling.k8s.io/v1", "PriorityClass")),
    *(("rbac.authorization.k8s.io/v1", "RoleBinding"), ("networking.k8s.io/v1", "NetworkPolicy")),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
)
"""Kinds that are read, of all versions that a server may have; a kind that it does not have costs nothing."""
_OWN = (
    Query("v1", "ConfigMap", SYSTEM_NAMESPACE),
    Query("apps/v1", "Deployment", SYSTEM_NAMESPACE),
    Query("batch/v1", "CronJob", SYSTEM_NAMESPACE),
)
_SIGNS = (
    Query("apps/v1", "Deployment", None, "metadata.name=gpu-operator", optional=True),
    Query("operators.coreos.com/v1alpha1", "Subscription", optional=True),
)
"""What shows where an operator runs that has not yet said it of its ClusterPolicy. They show nothing else: an
environment is not read from them."""
_VERSION = re.compile(r"v?(1\.[0-9]{2})\b.*")


@dataclass(frozen=True, slots=True)
class Imported:
    """The file, and how it came about."""

    conversion: Conversion
    requests: int
    """List requests that it took."""
    objects: int
    """Objects that were read."""
    recorded: bool
    """Whether the file is one that the cluster itself keeps."""


def import_environment(
    api: KubeApi, choices: Choices, notify: Callable[[str], None] = lambda _: None, recorded: bool = True
) -> Imported:
    """The environment of the cluster at `api`. Raises ApiError, UnreachableError, and GpupoolError where
    the cluster has nothing about GPUs. `recorded`: take the file that the cluster keeps, where it says the
    same."""
    notify("read the cluster")
    seen = gather(api)
    objects, requests = list(seen.objects), seen.requests
    notify(f"convert {len(objects)} objects")
    where = f"context {api.context}"
    chosen = replace(
        choices,
        kubernetes_version=_version(api),
        likely_cluster=api.context,
        operator_namespace=seen.operator_namespace,
        sources=(*choices.sources, where),
    )
    result = convert(of_cluster(objects, where), chosen)
    if not result.pools and not any(entry.category == "todo" for entry in result.leftovers):
        raise GpupoolError(
            f"{where}: no GPU pools, GPU nodes or sharing configurations; check that this is the right "
            "cluster"
        )
    kept = _recorded(api, objects, result, choices.name) if recorded else None
    if kept is not None:
        left = tuple(entry for entry in result.leftovers if entry.category != "assumed")
        return Imported(replace(result, text=kept, leftovers=left), requests, len(objects), True)
    reported = import_notes.notes(
        where, choices.name, import_notes.owners(objects), _newest(api, objects), result.text
    )
    result = replace(result, leftovers=(*result.leftovers, *reported))
    return Imported(result, requests, len(objects), False)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was read of a cluster."""

    objects: tuple[Object, ...]
    """Every object that an environment can be read from."""
    operator_namespace: str | None
    """Where the GPU Operator runs; None where nothing shows it."""
    requests: int
    """List requests that it took: one per kind, one for the operator's configurations, and one for each that
    is not where the operator is taken to run."""


def gather(api: KubeApi) -> Gathered:
    """Read the cluster. Raises ApiError and UnreachableError."""
    settings = take(api, [*(Query(*kind) for kind in _EVERYWHERE), *_OWN])
    signs = take(api, _SIGNS)
    place = operator_place([*_all(settings), *_all(signs)])
    namespace = place.namespace if place else None
    maps = take(api, [Query("v1", "ConfigMap", namespace or OPERATOR_NAMESPACE)])
    objects = _one_version(_all(settings))
    objects += maps.of("v1", "ConfigMap")
    names = _named_maps(objects)
    here = {_name(thing) for thing in objects if thing["kind"] == "ConfigMap"}
    away = take(
        api, [Query("v1", "ConfigMap", None, f"metadata.name={name}") for name in sorted(names - here)]
    )
    objects += away.of("v1", "ConfigMap")
    kept = [_trimmed(thing) for thing in objects if _may_say_something(thing, names)]
    return Gathered(tuple(kept), namespace, sum(read.requests for read in (settings, signs, maps, away)))


def _all(read: ClusterSnapshot) -> Iterator[Object]:
    for held in read.objects.values():
        yield from held.values()


def _one_version(objects: Iterable[Object]) -> list[Object]:
    """Objects once, where a server lists them under several versions: the first that was asked for."""
    order = {kind: number for number, kind in enumerate(_EVERYWHERE)}
    found: dict[tuple[str, str, str], Object] = {}
    for thing in sorted(objects, key=lambda o: order.get((o["apiVersion"], o["kind"]), 0)):
        key = (thing["kind"], thing["metadata"].get("namespace", ""), _name(thing))
        found.setdefault(key, thing)
    return list(found.values())


def _named_maps(objects: Sequence[Object]) -> set[str]:
    """ConfigMaps that the operator is pointed at, but for those that it brings."""
    policies = [thing for thing in objects if thing["kind"] == "ClusterPolicy"]
    names = {
        value_at(policy, ("spec", operand, "config", "name"))
        for policy in policies
        for operand in ("devicePlugin", "migManager")
    }
    return {name for name in names if isinstance(name, str) and name and name != SHIPPED_MIG_MAP}


def _may_say_something(thing: Object, named: set[str]) -> bool:
    """Whether an environment may be read from the object: from each that is no ConfigMap; in gpupool's
    namespace from its own ConfigMaps, but for the last good state; elsewhere from those in `named`, to which
    a ClusterPolicy points, or from all where none points to any."""
    if thing["kind"] != "ConfigMap":
        return True
    namespace = thing["metadata"].get("namespace")
    ours = (thing["metadata"].get("labels") or {}).get(MANAGED_BY) == "gpupool"
    if namespace == SYSTEM_NAMESPACE:
        return ours and _name(thing) != last_good.NAME
    return _name(thing) in named or not named


def _trimmed(thing: Object) -> Object:
    """The object without the server's record of who set what, but for nodes whose labels are ours, and a node
    without its long status."""
    metadata = dict(thing["metadata"])
    if thing["kind"] != "Node":
        metadata.pop("managedFields", None)
        return {**thing, "metadata": metadata}
    if TAINTS_ANNOTATION not in (metadata.get("annotations") or {}):
        metadata.pop("managedFields", None)
    status = {"capacity": (thing.get("status") or {}).get("capacity") or {}}
    return {**thing, "metadata": metadata, "status": status}


def _name(thing: Mapping[str, Any]) -> str:
    return str(thing["metadata"]["name"])


def _version(api: KubeApi) -> str | None:
    answer = api.request("GET", "/version")[1]
    match = _VERSION.fullmatch(str(answer.get("gitVersion", ""))) if isinstance(answer, dict) else None
    return match[1] if match else None


def _recorded(api: KubeApi, objects: Sequence[Object], result: Conversion, name: str) -> str | None:
    """The file that the cluster keeps, where it amounts to the same objects as what was read."""
    read = _plan(result.text, name)
    texts = [_applied(thing) for thing in objects]
    texts += [state.text for state in last_good.history(api) if state.environment == name]
    for text in texts if read is not None else ():
        kept = _plan(text, name) if text else None
        if kept is not None and read is not None and _objects(kept) == _objects(read):
            return text
    return None


def _newest(api: KubeApi, objects: Sequence[Object]) -> str | None:
    """The file that the cluster keeps, of whatever environment; None where it keeps none."""
    kept = last_good.read(api)
    return kept.text if kept else next(filter(None, map(_applied, objects)), None)


def _applied(thing: Object) -> str:
    """The environment file that the cluster's own check reads; empty where the object is not it."""
    if thing["kind"] == "ConfigMap" and _name(thing).startswith(f"{assertion.NAME}-"):
        return str((thing.get("data") or {}).get("environment", ""))
    return ""


def _plan(text: str, name: str) -> Plan | None:
    try:
        return resolve(check_shape(parse_source(f"{name}.yaml", text.encode())))
    except SpecError:
        return None


def _objects(plan: Plan) -> dict[Any, Any]:
    """Everything that the plan amounts to, but for the cluster's own check, which holds the file's text."""
    bare = replace(plan, assertion=None)
    return {manifest.key: (manifest.body, manifest.patch) for manifest in generate(bare)}
