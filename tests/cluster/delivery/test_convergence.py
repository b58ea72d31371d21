"""Rendered files, applied as Argo CD or Flux do it, make of an empty cluster what `gpupool up` makes it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from gpupool.live.cluster.kube_api import KubeApi
from tests.cluster.delivery.conftest import Trial
from vapcheck.cel.environment import Environment
from vapcheck.cel.errors import EvaluationError
from vapcheck.cel.program import Scope

Object = dict[str, Any]
Key = tuple[str, str | None, str]

_LIVELY = {"Event", "Lease", "Endpoints", "EndpointSlice", "CSINode", "APIService", "FlowSchema"} | {
    "Pod",
    "ReplicaSet",
    "Node",
    "NodeClaim",
}
"""Kinds that come and go by themselves, or that controllers make of ours under names of chance."""
_HARMLESS = {("Deployment", "/metadata/annotations/deployment.kubernetes.io~1revision")}
"""Every Deployment has it and no file does, so there is nothing to compare it with."""
_SERVERS_OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
_APPLY = ("--server-side", "--force-conflicts")
"""As both engines apply."""
_NOTES = ("argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/", "pulumi.com/", "deployment.kubernetes.io/")


def held(api: KubeApi) -> dict[Key, Object]:
    """Everything in the cluster that stays, without what only the server or an engine of delivery writes."""
    found: dict[Key, Object] = {}
    for path, kind in sorted(collections(api).items()):
        for item in api.request("GET", path)[1]["items"]:
            meta = item["metadata"]
            found[(kind, meta.get("namespace"), meta["name"])] = plain(item)
    return found


def collections(api: KubeApi) -> dict[str, str]:
    """URL path -> kind of everything that can be listed, each kind of a group in its first version."""
    seen: dict[tuple[str, str], str] = {}
    groups = api.request("GET", "/apis")[1]["groups"]
    versions = [row["groupVersion"] for group in groups for row in group["versions"]]
    for root in ("/api/v1", *(f"/apis/{version}" for version in versions)):
        for row in api.request("GET", root)[1]["resources"]:
            if "list" in row["verbs"] and "/" not in row["name"] and row["kind"] not in _LIVELY:
                seen.setdefault((root.rpartition("/")[0], row["name"]), f"{root}/{row['name']} {row['kind']}")
    return dict(text.split(" ") for text in seen.values())


def plain(item: Object) -> Object:
    body = copy.deepcopy(item)
    body.pop("status", None)
    meta = body["metadata"]
    for field in _SERVERS_OWN:
        meta.pop(field, None)
    notes = {key: text for key, text in meta.pop("annotations", {}).items() if not key.startswith(_NOTES)}
    return {**body, "annotations": notes}


def added(api: KubeApi, before: dict[Key, Object]) -> dict[Key, Object]:
    """What is in the cluster now and was not before."""
    return {key: body for key, body in held(api).items() if key not in before}


def waves(checkout: Path) -> Iterator[tuple[int, list[Path]]]:
    """Files by wave, as Argo CD sorts them: by the annotation, within the folder that it is pointed at."""
    root = checkout / "rendered" / "trial"
    found: dict[int, list[Path]] = {}
    for path in sorted(root.rglob("*.yaml")):
        if "delivery" not in path.relative_to(root).parts:
            notes = yaml.safe_load(path.read_text(encoding="utf-8"))["metadata"]["annotations"]
            found.setdefault(int(notes["argocd.argoproj.io/sync-wave"]), []).append(path)
    yield from sorted(found.items())


def chain(trial: Trial, checkout: Path) -> Iterator[Object]:
    """Flux's Kustomizations, each after those that it depends on."""
    built = trial.kubectl("kustomize", str(checkout / "rendered" / "trial" / "delivery" / "flux"))
    bodies = list(yaml.load_all(built, Loader=yaml.CSafeLoader))
    assert "GitRepository" in {body["kind"] for body in bodies}
    left = {
        body["metadata"]["name"]: body["spec"]
        for body in bodies
        if body["apiVersion"].startswith("kustomize.toolkit.fluxcd.io/")
    }
    while left:
        ready = [name for name, spec in left.items() if not waiting(spec, left)]
        assert ready, f"these wait for each other: {sorted(left)}"
        for name in ready:
            yield left.pop(name)


def waiting(spec: Object, left: dict[str, Object]) -> bool:
    return any(dependency["name"] in left for dependency in spec.get("dependsOn", []))


def healthy(api: KubeApi, spec: Object, applied: list[Object]) -> bool:
    """Whether the health checks of a Kustomization pass, as Flux evaluates them."""
    checks = {check["kind"]: check for check in spec.get("healthCheckExprs", [])}
    for body in applied:
        if body["kind"] in checks and not is_current(api, checks[body["kind"]], body):
            raise AssertionError(f"{body['kind']} {body['metadata']['name']} is not current")
    return True


def is_current(api: KubeApi, check: Object, body: Object) -> bool:
    live = api.get(body["apiVersion"], body["kind"], body["metadata"]["name"])
    assert live is not None
    program = Environment({"status": "dyn"}).compile(check["current"])
    try:
        return program.evaluate(Scope({"status": live["status"]})) is True
    except (EvaluationError, KeyError):
        return False


def converged(api: KubeApi, trial: Trial) -> bool:
    for body in trial.bundle:
        if body.kind in ("NodePool", "NodeOverlay"):
            live = api.get(body.api_version, body.kind, body.name) or {}
            ready = [row for row in live.get("status", {}).get("conditions", []) if row["type"] == "Ready"]
            assert ready, f"{body} is not judged"
            assert ready[0]["status"] == "True", f"{body}: {ready}"
    return True


def by_pulumi(trial: Trial, cluster: Any) -> None:
    trial.deliver_by("pulumi")
    trial.gpupool("up", "--yes")


def by_argocd(trial: Trial, cluster: Any) -> None:
    trial.deliver_by("argocd")
    for _, paths in waves(trial.rendered()):
        options = [option for path in paths for option in ("-f", str(path))]
        trial.kubectl("apply", *_APPLY, "--field-manager=argocd-controller", *options)


def by_flux(trial: Trial, cluster: Any) -> None:
    trial.deliver_by("flux")
    checkout = trial.rendered()
    for spec in chain(trial, checkout):
        built = trial.kubectl(
            "kustomize", "--load-restrictor=LoadRestrictionsNone", str(checkout / spec["path"])
        )
        trial.kubectl("apply", *_APPLY, "--field-manager=kustomize-controller", "-f", "-", text=built)
        applied = list(yaml.load_all(built, Loader=yaml.CSafeLoader))
        passes = partial(healthy, cluster.api, spec, applied)
        cluster.wait(f"what is in {spec['path']} is healthy", passes, timeout=60)


def written_by_others(api: KubeApi, trial: Trial) -> set[tuple[str, str]]:
    """(kind, JSON pointer) of what controllers have written onto objects of ours, status aside."""
    found = set()
    for manifest in trial.bundle:
        live = api.get(manifest.api_version, manifest.kind, manifest.name, manifest.namespace)
        assert live is not None
        for row in live["metadata"]["managedFields"]:
            if row["manager"] != "argocd-controller" and row.get("subresource") != "status":
                found |= {(manifest.kind, pointer) for pointer in leaves(row["fieldsV1"])}
    return found


def leaves(fields: Object, above: str = "") -> Iterator[str]:
    for key, inner in fields.items():
        name = key.removeprefix("f:").replace("~", "~0").replace("/", "~1")
        if inner:
            yield from leaves(inner, f"{above}/{name}")
        elif key != ".":
            yield f"{above}/{name}"


def ignored(trial: Trial) -> set[tuple[str, str]]:
    """(kind, JSON pointer) of fields that Argo CD must leave to controllers."""
    folder = trial.folder / "checkout" / "rendered" / "trial" / "delivery" / "argocd"
    spec = yaml.safe_load((folder / "application-gpupool-trial.yaml").read_text(encoding="utf-8"))["spec"]
    return {(row["kind"], pointer) for row in spec["ignoreDifferences"] for pointer in row["jsonPointers"]}


def test_three_ways_to_one_cluster(trial: Trial, cluster: Any) -> None:
    before = held(cluster.api)
    made: dict[str, dict[Key, Object]] = {}
    for way in (by_pulumi, by_argocd, by_flux):
        way(trial, cluster)
        works = partial(converged, cluster.api, trial)
        cluster.wait(f"everything works that was applied {way.__name__}", works, timeout=60)
        if way is by_argocd:
            others = written_by_others(cluster.api, trial)
            assert others - _HARMLESS == ignored(trial)
        made[way.__name__] = added(cluster.api, before)
        cluster.wipe()
    expected = made.pop("by_pulumi")
    ours = {(body.kind, body.namespace, body.name) for body in trial.bundle}
    assert ours <= set(expected)
    for way_name, found in made.items():
        assert set(found) == set(expected), way_name
        for key, body in found.items():
            assert body == expected[key], f"{way_name}: {key}"
