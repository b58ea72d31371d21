"""What only Flux is given: a chain of Kustomizations, the kind of revision, and when something is healthy."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.generators.layout import manifest_path
from tests.generators.test_delivery import CLOUD, FLUX, LOCAL, Data, made, parsed, wrappers
from vapcheck.cel.environment import Environment
from vapcheck.cel.errors import EvaluationError
from vapcheck.cel.program import Scope


def test_every_object_is_in_one_kustomization_and_each_waits_for_the_one_before() -> None:
    bundle = made(CLOUD, FLUX)
    rendered = parsed(bundle)
    chain = list(wrappers(bundle, "Kustomization").values())
    assert [step["spec"].get("dependsOn") for step in chain] == [
        None,
        *([{"name": step["metadata"]["name"]}] for step in chain[:-1]),
    ]
    listed: list[str] = []
    for step in chain:
        folder = Path(step["spec"]["path"]).relative_to("rendered/x")
        for name in rendered[str(folder / "kustomization.yaml")]["resources"]:
            up = name.startswith("../../../")
            listed += [name.removeprefix("../../../") if up else str(folder / name)]
    assert set(listed) <= set(rendered)
    assert len(listed) == len(set(listed))
    objects = {manifest_path(m) for m in bundle}
    assert objects <= set(listed)
    assert {rendered[path]["kind"] for path in set(listed) - objects} == {
        "HelmRelease",
        "HelmRepository",
        "OCIRepository",
    }


@pytest.mark.parametrize(
    ("repo", "revision", "kind", "ref"),
    [
        ("https://x/y", "main", "GitRepository", {"branch": "main"}),
        ("https://x/y", "release/1.2", "GitRepository", {"branch": "release/1.2"}),
        ("https://x/y", "v1.2.3", "GitRepository", {"tag": "v1.2.3"}),
        ("https://x/y", "1.2.3-rc.1", "GitRepository", {"tag": "1.2.3-rc.1"}),
        ("https://x/y", "refs/pull/7/head", "GitRepository", {"name": "refs/pull/7/head"}),
        ("https://x/y", "a" * 40, "GitRepository", {"commit": "a" * 40}),
        ("oci://x/y", "latest", "OCIRepository", {"tag": "latest"}),
        ("oci://x/y", "sha256:" + "a" * 64, "OCIRepository", {"digest": "sha256:" + "a" * 64}),
    ],
)
def test_flux_gets_the_kind_of_revision(repo: str, revision: str, kind: str, ref: Data) -> None:
    bundle = made(LOCAL, {**FLUX, "repo": repo, "revision": revision})
    assert wrappers(bundle, kind)["gpupool-trial"]["spec"]["ref"] == ref


def health_checks() -> dict[str, Data]:
    """Kind -> the expressions that Flux is given for it."""
    chains = [wrappers(made(data, FLUX), "Kustomization").values() for data in (CLOUD, LOCAL)]
    steps = [step["spec"] for chain in chains for step in chain]
    return {check["kind"]: check for step in steps for check in step.get("healthCheckExprs", [])}


def condition(name: str, status: str) -> Data:
    return {"status": {"conditions": [{"type": "Other", "status": "True"}, {"type": name, "status": status}]}}


@pytest.mark.parametrize(
    ("kind", "live", "verdict"),
    [
        ("NodePool", condition("Ready", "True"), "current"),
        ("NodePool", condition("Ready", "False"), "wait"),
        ("NodePool", {"status": {}}, "wait"),
        ("EC2NodeClass", condition("Ready", "True"), "current"),
        ("NodeOverlay", condition("ValidationSucceeded", "True"), "current"),
        ("NodeOverlay", condition("ValidationSucceeded", "False"), "failed"),
        ("NodeOverlay", {"status": {"conditions": []}}, "wait"),
        ("ClusterPolicy", {"status": {"state": "ready"}}, "current"),
        ("ClusterPolicy", {"status": {"state": "notReady"}}, "current"),
        ("ClusterPolicy", {"status": {"state": "ignored"}}, "failed"),
        ("ClusterPolicy", {"status": {}}, "wait"),
    ],
)
def test_health_is_what_the_controllers_say(kind: str, live: Data, verdict: str) -> None:
    scope, check = Scope(live), health_checks()[kind]
    said = "wait"
    for word in ("failed", "current"):
        if word in check and said == "wait":
            program = Environment({"status": "dyn"}).compile(check[word], expects=("bool",))
            try:
                said = word if program.evaluate(scope) else said
            except EvaluationError:
                continue
    assert said == verdict
