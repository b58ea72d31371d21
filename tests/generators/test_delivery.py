"""Delivery by Argo CD and by Flux: same objects, right order, least privilege, nothing deleted in passing."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.generators import delivery, delivery_argocd, generate
from gpupool.generators.kinds import KINDS, kind_of
from gpupool.generators.layout import manifest_path
from gpupool.generators.manifest import Bundle, Manifest
from gpupool.generators.render import files, write
from tests.environment_files import Data, environment_data, plan_of

REPO = {"repo": "https://git.example.com/ml/platform.git", "path": "rendered/x"}
ARGOCD, FLUX = {"engine": "argocd", **REPO}, {"engine": "flux", **REPO}
ENGINES = [pytest.param(ARGOCD, id="argocd"), pytest.param(FLUX, id="flux")]

CLOUD = environment_data(
    "eks",
    pools=[
        {"name": "training", "gpu": "h100-80gb", "nodes": {"instanceTypes": ["p5.48xlarge"], "max": 8}},
        {
            "name": "batch",
            "gpu": "l4",
            "sharing": {"mode": "mps", "replicas": 4},
            "nodes": {
                "instanceTypes": ["g6.xlarge", "g6.12xlarge"],
                "maxGpus": 16,
                "warm": 1,
                "spotShare": 0.5,
            },
        },
    ],
    priorities=[
        {"name": "urgent", "value": 2, "level": "high"},
        {"name": "usual", "value": 1, "level": "low"},
    ],
    tenants=[
        {"name": "vision", "namespace": "team-vision", "pools": {"training": {"gpus": 8}}},
        {
            "name": "search",
            "namespace": "team-search",
            "maxPriority": "urgent",
            "pools": {"batch": {"slices": 8}},
            "access": {"oidcGroups": ["search"]},
        },
        {"name": "speech", "namespace": "team-speech", "pools": {"batch": {"gpus": 1}}},
    ],
)
LOCAL: Data = {**CLOUD, "cluster": {"platform": "local", "name": "x"}}
STATIC = environment_data(
    "static",
    gpuOperator={"install": False},
    pools=[{"name": "desk", "gpu": "rtx-4090", "nodes": {"names": ["node-0"]}, "taints": []}],
)


def made(data: Data, how: Data) -> Bundle:
    return generate(plan_of({**data, "delivery": how}))


def parsed(bundle: Bundle) -> dict[str, Any]:
    return {
        path: yaml.load(text, Loader=yaml.CSafeLoader)
        for path, text in files(bundle).items()
        if path.endswith(".yaml")
    }


def wrappers(bundle: Bundle, kind: str) -> dict[str, Data]:
    """Name -> every wrapper of a kind."""
    bodies = delivery.wrappers(bundle).values()
    found = [json.loads(json.dumps(body)) for body in bodies if body["kind"] == kind and "metadata" in body]
    return {body["metadata"]["name"]: body for body in found}


def notes(bundle: Bundle, kind: str, name: str) -> Data:
    found = next(m for m in bundle if (m.kind, m.name) == (kind, name))
    annotations: Data = dict(delivery.body(found, bundle.delivery)["metadata"].get("annotations", {}))
    return annotations


@pytest.mark.parametrize("how", ENGINES)
@pytest.mark.parametrize("data", [CLOUD, LOCAL, STATIC], ids=["eks", "local", "static"])
def test_objects_are_those_of_pulumi_but_for_annotations(data: Data, how: Data) -> None:
    plain, reported = parsed(made(data, {})), parsed(made(data, how))
    assert set(plain) <= set(reported)
    for path, body in plain.items():
        ours = reported[path]
        added = ours.get("metadata", {}).get("annotations", {})
        for key in [key for key in added if "argoproj.io/" in key or "fluxcd.io/" in key]:
            del added[key]
        if "annotations" not in body.get("metadata", {}) and not added:
            ours.get("metadata", {}).pop("annotations", None)
        assert ours == body, path


def test_pulumi_leaves_no_trace_of_others() -> None:
    text = "".join(files(made(CLOUD, {})).values())
    # Tenants may make Argo's Workflows, whatever delivers.
    assert not re.search("argocd|argoproj.io/", text)
    assert "fluxcd" not in text
    assert delivery.start(made(CLOUD, {}).delivery, "x") is None


@pytest.mark.parametrize("how", ENGINES)
def test_a_folder_is_cleared_of_another_engines_files(how: Data, tmp_path: Path) -> None:
    write(made(LOCAL, how), tmp_path)
    plain = made(LOCAL, {})
    write(plain, tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(files(plain))


@pytest.mark.parametrize("removal", ["keep", "delete"])
@pytest.mark.parametrize("how", ENGINES)
def test_what_is_somebody_elses_is_never_deleted(how: Data, removal: str) -> None:
    bundle = made(STATIC, {**how, "onRemoval": removal})
    patches = [m for m in bundle if m.patch]
    assert {m.kind for m in patches} == {"Node", "ClusterPolicy"}
    for patch in patches:
        annotations = notes(bundle, patch.kind, patch.name)
        if how is ARGOCD:
            assert annotations["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false"
        else:
            assert annotations == {
                "kustomize.toolkit.fluxcd.io/prune": "disabled",
                "kustomize.toolkit.fluxcd.io/ssa": "Merge",
            }


KEPT = [
    *(("NodePool", "training"), ("EC2NodeClass", "training"), ("Namespace", "team-vision")),
    ("RoleBinding", "gpupool-launcher"),
]
FREE = [("ClusterRole", "gpupool-tenant"), ("NodeOverlay", "batch.1gpu"), ("Namespace", "gpupool-system")]


@pytest.mark.parametrize(
    ("removal", "options"),
    [
        (None, "Prune=false,Delete=confirm"),
        ("confirm", "Prune=false,Delete=confirm"),
        ("keep", "Prune=false,Delete=false"),
        ("delete", None),
    ],
)
def test_argo_deletes_nothing_that_holds_work_and_waits_for_nobody_in_a_sync(
    removal: str | None, options: str | None
) -> None:
    bundle = made(CLOUD, ARGOCD | ({"onRemoval": removal} if removal else {}))
    for kind, name in KEPT:
        assert notes(bundle, kind, name).get("argocd.argoproj.io/sync-options") == options, (kind, name)
    for kind, name in FREE:
        assert "argocd.argoproj.io/sync-options" not in notes(bundle, kind, name), (kind, name)


@pytest.mark.parametrize(("removal", "kept"), [(None, True), ("keep", True), ("delete", False)])
def test_flux_leaves_what_holds_work(removal: str | None, kept: bool) -> None:
    bundle = made(CLOUD, FLUX | ({"onRemoval": removal} if removal else {}))
    for kind, name in KEPT:
        assert ("kustomize.toolkit.fluxcd.io/prune" in notes(bundle, kind, name)) is kept, (kind, name)
    for kind, name in FREE:
        assert not notes(bundle, kind, name), (kind, name)


def test_a_priority_whose_value_changes_is_made_anew() -> None:
    """The API server refuses a new value; Pulumi replaces the object, and so must the others."""
    for kind in [kind.name for kind in KINDS if kind.immutable]:
        for how in (ARGOCD, FLUX):
            bundle = made(CLOUD, how)
            for one in [m for m in bundle if m.kind == kind]:
                added = json.dumps(notes_of(bundle, one) or {})
                reported = (
                    "Force=true,Replace=true" in added or '"kustomize.toolkit.fluxcd.io/force"' in added
                )
                assert reported is (kind == "PriorityClass"), (how, one)
    assert [m.name for m in made(CLOUD, ARGOCD) if m.kind == "PriorityClass"]


def test_argo_does_not_ask_the_server_about_what_the_server_refuses() -> None:
    """Server-Side Diff of a changed PriorityClass is an error, and then nothing of its Application syncs."""
    applications = wrappers(made(CLOUD, ARGOCD), "Application")
    note = "argocd.argoproj.io/compare-options"
    apart = applications.pop("gpupool-trial-priorities")
    assert apart["metadata"]["annotations"][note] == "ServerSideDiff=false"
    assert "ApplyOutOfSyncOnly=true" in apart["spec"]["syncPolicy"]["syncOptions"]
    assert {one["metadata"]["annotations"][note] for one in applications.values()} == {"ServerSideDiff=true"}
    plain = {**LOCAL, "priorities": [], "tenants": []}
    plain["pools"] = [{**pool, "nodes": {**pool["nodes"], "warm": 0}} for pool in LOCAL["pools"]]
    assert "gpupool-trial-priorities" not in wrappers(made(plain, ARGOCD), "Application")


def test_a_namespace_that_stays_keeps_its_bounds() -> None:
    bundle = made(CLOUD, FLUX)
    of_tenant = [
        m for m in bundle if m.namespace == "team-vision" and m.kind in ("ResourceQuota", "LimitRange")
    ]
    kept = {(m.kind, m.name) for m in of_tenant if notes_of(bundle, m)}
    # The quota of priorities goes when the tenant may use them all: it must not stay and refuse its pods.
    assert kept == {("ResourceQuota", "gpupool"), ("LimitRange", "gpupool")}
    assert ("ResourceQuota", "gpupool-priorities") in {(m.kind, m.name) for m in of_tenant}


def notes_of(bundle: Bundle, manifest: Manifest) -> Any:
    return delivery.body(manifest, bundle.delivery)["metadata"].get("annotations")


def permitted(spec: Data, scope: str) -> set[tuple[str, str]]:
    return {(row["group"], row["kind"]) for row in spec[scope]}


@pytest.mark.parametrize("data", [CLOUD, LOCAL, STATIC], ids=["eks", "local", "static"])
def test_every_object_is_of_a_kind_that_the_table_has(data: Data) -> None:
    for manifest in made(data, ARGOCD):
        kind = kind_of(manifest.kind)
        assert kind.api_version == manifest.api_version
        assert kind.cluster_wide is (manifest.namespace is None)


def test_the_project_permits_every_kind_that_a_file_can_need_and_nothing_else() -> None:
    bundle = made(CLOUD, ARGOCD)
    spec = wrappers(bundle, "AppProject")["gpupool-trial"]["spec"]
    for scope, wide in (("clusterResourceWhitelist", True), ("namespaceResourceWhitelist", False)):
        table = {(k.group, k.name) for k in KINDS if k.cluster_wide is wide}
        assert permitted(spec, scope) == table
    assert "*" not in json.dumps(spec)
    spaces = {row["namespace"] for row in spec["destinations"]}
    assert spaces == {m.namespace for m in bundle if m.namespace}
    assert spec["sourceRepos"] == [REPO["repo"]]


def test_one_command_starts_everything_else() -> None:
    """The project first, because kubectl applies files by their names; and it permits nothing of pools."""
    bundle = made(CLOUD, ARGOCD)
    command = delivery.start(bundle.delivery, "rendered/x")
    assert command == "kubectl apply -f rendered/x/delivery/argocd/start"
    started = {
        path: body
        for path, body in delivery.wrappers(bundle).items()
        if path.startswith("delivery/argocd/start/")
    }
    project, application = (started[path] for path in sorted(started))
    assert (project["kind"], application["kind"]) == ("AppProject", "Application")
    assert application["spec"]["project"] == project["metadata"]["name"]
    assert application["spec"]["source"]["path"] == "rendered/x/delivery/argocd"
    assert "directory" not in application["spec"]["source"], "it reads no folder below, so not itself"
    assert permitted(project["spec"], "namespaceResourceWhitelist") == {
        ("argoproj.io", "Application"),
        ("argoproj.io", "AppProject"),
    }
    assert project["spec"]["clusterResourceWhitelist"] == []


def excluded(pattern: str, path: str) -> bool:
    """As Argo CD's glob without separators has it: `*` is any text, slashes too; `{a,b}` either."""
    return any(fnmatchcase(path, part) for part in pattern.strip("{}").split(","))


def test_argo_reads_every_object_and_nothing_else_whatever_tenants_are_called() -> None:
    spaces = ("delivery", "releases", "argocd")
    tenants = [tenant | {"namespace": space} for tenant, space in zip(CLOUD["tenants"], spaces, strict=True)]
    bundle = made({**CLOUD, "tenants": tenants}, ARGOCD)
    folders = wrappers(bundle, "Application")
    pattern = folders["gpupool-trial"]["spec"]["source"]["directory"]["exclude"]
    read = [path for path in files(bundle) if not excluded(pattern, path)]
    pattern = folders["gpupool-trial-priorities"]["spec"]["source"]["directory"]["include"]
    apart = [path for path in files(bundle) if excluded(pattern, path)]
    assert sorted(read + apart) == sorted(manifest_path(m) for m in bundle)
    assert set(apart) == {manifest_path(m) for m in bundle if m.kind == "PriorityClass"}
    assert "delivery/resourcequota-gpupool.yaml" in read
    for manifest in bundle:
        reported = delivery_argocd.application_name("trial", manifest)
        taken = apart if reported == "gpupool-trial-priorities" else read
        assert manifest_path(manifest) in taken, (reported, manifest)


def test_deleting_an_application_deletes_nothing_of_what_it_applied() -> None:
    for application in wrappers(made(CLOUD, ARGOCD), "Application").values():
        assert "finalizers" not in application["metadata"]


def test_by_hand_is_by_hand() -> None:
    bundle = made(CLOUD, {**ARGOCD, "argocd": {"automated": False}})
    for application in wrappers(bundle, "Application").values():
        assert "automated" not in application["spec"]["syncPolicy"]


def test_both_engines_install_the_charts_that_pulumi_installs() -> None:
    plain = {release.name: release for release in made(CLOUD, {}).releases}
    assert set(plain) == {"gpu-operator", "karpenter"}
    applications = wrappers(made(CLOUD, ARGOCD), "Application")
    releases = wrappers(made(CLOUD, FLUX), "HelmRelease")
    sources = wrappers(made(CLOUD, FLUX), "OCIRepository") | wrappers(made(CLOUD, FLUX), "HelmRepository")
    for name, release in plain.items():
        source = applications[f"gpupool-trial-{name}"]["spec"]["source"]
        assert source["helm"] == {"releaseName": name, "valuesObject": json.loads(json.dumps(release.values))}
        assert (source["chart"], source["targetRevision"]) == (release.chart, release.version)
        spec = releases[f"gpupool-trial-{name}"]["spec"]
        assert spec["values"] == source["helm"]["valuesObject"]
        assert (spec["releaseName"], spec["targetNamespace"]) == (name, release.namespace)
    assert applications["gpupool-trial-karpenter"]["spec"]["source"]["repoURL"] == "public.ecr.aws/karpenter"
    assert sources["gpupool-trial-karpenter"]["spec"]["url"] == "oci://public.ecr.aws/karpenter/karpenter"
    chart = releases["gpupool-trial-gpu-operator"]["spec"]["chart"]["spec"]
    assert chart["sourceRef"]["name"] in sources
    assert (chart["chart"], chart["version"]) == ("gpu-operator", plain["gpu-operator"].version)
