"""What the pages say that gpupool lacks is still lacking, and the versions they name are the code's.

A claim of absence has a check that fails once the claim stops being true. In the limits of the README every
sentence that says so needs one.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpupool import __version__
from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.plan.checks import operator
from gpupool.environment.plan.operator_releases import load_operator_releases, version_key
from gpupool.environment.plan.resolve import findings_of, read_plan
from gpupool.environment.schema.reference import fields
from gpupool.environment.spec.environment import API_VERSION, Karpenter
from gpupool.generators import generate
from vapcheck.server.minors import MINORS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WRONG = ROOT / "tests" / "golden" / "wrong_environments"
API = json.loads((ROOT / "docs" / "queue-openapi.json").read_text(encoding="utf-8"))
ABSENCE = re.compile(r"\b(not|no|only|refused|without)\b", re.IGNORECASE)


def refused(file: str, path: str) -> bool:
    """Whether the wrong environment has a finding at the field, as (path in the file) `queue.engine`."""
    return any(finding.path == path for finding in findings_of(WRONG / f"{file}.yaml"))


@functools.cache
def rendered() -> set[tuple[str, str]]:
    """API group and kind of everything that is made for the shipped environments."""
    bodies = [m.body for name in ("prod", "local", "homelab") for m in generate(read_plan(name)).manifests]
    return {(body["apiVersion"].rpartition("/")[0], body["kind"]) for body in bodies}


def served(word: str) -> bool:
    """Whether the API of the queue has an address, or a job a field, with the word."""
    job = API["components"]["schemas"]["JobRequest"]["properties"]
    return any(word in name for name in [*API["paths"], *job])


def has_field(word: str) -> bool:
    return any(word in field.path.lower() for field in fields())


KNOWN_GROUPS = {
    *("", "apps", "batch", "admissionregistration.k8s.io", "rbac.authorization.k8s.io", "scheduling.k8s.io"),
    *("networking.k8s.io", "karpenter.sh", "karpenter.k8s.aws", "karpenter.kwok.sh", "nvidia.com"),
    "monitoring.coreos.com",
}
"""Of what gpupool makes. None of them makes clusters, networks of a cloud or IAM roles."""

CLAIMS: tuple[tuple[str, str, Callable[[], bool]], ...] = (
    (
        "README.md",
        "It manages GPUs of NVIDIA on one cluster for each environment.",
        lambda: (
            not has_field("clusters")
            and all(model.title.startswith("NVIDIA") for model in load_catalog().models.values())
        ),
    ),
    (
        "README.md",
        "It does not create clusters, networks or IAM roles.",
        lambda: {group for group, _ in rendered()} <= KNOWN_GROUPS,
    ),
    (
        "README.md",
        "It has no interactive sessions and no workflows beyond `--after`.",
        lambda: not any(map(served, ("session", "exec", "workflow", "forward"))),
    ),
    ("README.md", "`queue.engine: kueue` is refused.", lambda: refused("not-there-yet", "queue.engine")),
    (
        "README.md",
        "Pools are not served by DRA claims.",
        lambda: "resource.k8s.io" not in {group for group, _ in rendered()} and not has_field("dra."),
    ),
    ("docs/queue.md", "it does not build images", lambda: not any(map(served, ("build", "dockerfile")))),
    ("docs/queue.md", "The queue serves one cluster.", lambda: not any(map(served, ("cluster",)))),
    (
        "docs/comparison.md",
        "NVIDIA's memory limits for shared GPUs (MPS v3, driver r615) are not supported yet.",
        lambda: not any("memory" in field.path for field in fields() if ".sharing." in field.path),
    ),
    (
        "docs/known-limits.md",
        "**Bottlerocket is refused**",
        lambda: refused("bottlerocket", "pools[0].nodes.image.family"),
    ),
    (
        "docs/known-limits.md",
        "**V100 with MPS** has 16 replicas at most",
        lambda: load_catalog().models["v100"].mps_clients == 16,
    ),
)


@pytest.mark.parametrize(("page", "claim", "holds"), CLAIMS, ids=[claim for _, claim, _ in CLAIMS])
def test_a_claim_is_on_its_page_and_true(page: str, claim: str, holds: Callable[[], bool]) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert claim in text, f"{page} no longer says so: take the claim out"
    assert holds(), f"{page} says {claim!r}, which is no longer true: correct the page"


def test_every_limit_of_the_readme_has_a_check() -> None:
    limits = README.partition("Limits to know")[2].partition("\n\nSee ")[0]
    said = [
        sentence.strip()
        for line in re.findall(r"^- (.*(?:\n  .*)*)", limits, re.MULTILINE)
        for sentence in re.split(r"(?<=\.)\s+", line)
    ]
    checked = {claim for page, claim, _ in CLAIMS if page == "README.md"}
    assert [one for one in said if ABSENCE.search(one) and one not in checked] == []


def row(name: str) -> str:
    (found,) = re.findall(rf"^\| {name} \| (.*) \|$", README, re.MULTILINE)
    return str(found)


def dotted(version: tuple[Any, ...]) -> str:
    return ".".join(map(str, version))


def test_supported_versions_are_those_of_the_code() -> None:
    releases = sorted(load_operator_releases().releases, key=version_key)
    python = re.search(r'requires-python = ">=(.*)"', (ROOT / "pyproject.toml").read_text())
    assert python
    assert f"{dotted(operator._KUBERNETES_MINIMUM)} or newer" in row("Kubernetes")
    assert row("Kubernetes").count(f"{MINORS[0]} to {MINORS[-1]}") == 2
    assert f"{releases[0]} to {releases[-1]}" in row("NVIDIA GPU Operator")
    assert row("Karpenter") == (
        f"{dotted(operator._KARPENTER_MINIMUM)} or newer | {Karpenter.model_fields['version'].default}"
    )
    assert row("Python").startswith(f"{python[1]} or newer")
    assert f"**alpha** ({__version__}, `{API_VERSION}`)" in README
