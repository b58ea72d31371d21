"""An environment whose operator runs in a namespace of another name: nothing of it is in the usual one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.findings import SpecError
from gpupool.generators import generate
from gpupool.generators.delivery import delivering
from gpupool.generators.manifest import Bundle
from tests.environment_files import plan_of

ROOT = Path(__file__).parents[2]
USUAL, OTHER = "gpu-operator", "nvidia"
_AS_NAMESPACE = re.compile(rf"(?<![\w-]){USUAL}(?![\w-])")
"""The usual name as a word of its own. It is the chart's and its release's name as well."""
_NAMES_THE_CHART = (
    *(f'"{key}": "{USUAL}"' for key in ("name", "chart", "releaseName")),
    f'"resourceNames": ["{USUAL}"',
    f"releases/{USUAL}.yaml",
)


def data_of(name: str, **operator: Any) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((ROOT / "environments" / f"{name}.yaml").read_text())
    data["gpuOperator"] = {**(data.get("gpuOperator") or {}), **operator}
    data.pop("promotion", None)
    return data


def everything(bundle: Bundle) -> str:
    bodies = [dict(manifest.body) for manifest in bundle]
    releases = [
        {"name": row.name, "chart": row.chart, "namespace": row.namespace, "values": row.values}
        for row in bundle.releases
    ]
    text = json.dumps([*bodies, *releases, *delivering(bundle)], default=str)
    for known in _NAMES_THE_CHART:
        text = text.replace(known, "")
    return text


def with_everything(name: str, engine: str) -> dict[str, Any]:
    data = data_of(name, namespace=OTHER)
    if name == "prod":
        data["monitoring"] = {**data.get("monitoring", {}), "prometheusOperator": True}
        data["monitoring"]["assertion"] = {"image": "registry.example.com/gpupool@sha256:" + "a" * 64}
    if engine != "pulumi":
        data["delivery"] = {"engine": engine, "repo": "https://git.example.com/a.git", "path": "rendered"}
    return data


@pytest.mark.parametrize("engine", ["pulumi", "argocd", "flux"])
@pytest.mark.parametrize("name", ["local", "homelab", "prod"])
def test_no_object_is_in_the_usual_namespace(name: str, engine: str) -> None:
    if name == "local" and engine != "pulumi":
        pytest.skip("the local control plane is applied to by `up` alone")
    bundle = generate(plan_of(with_everything(name, engine)))
    text = everything(bundle)
    left = [text[match.start() - 60 : match.end() + 20] for match in _AS_NAMESPACE.finditer(text)]
    assert left == []
    assert f'"namespace": "{OTHER}"' in text
    assert f"system:serviceaccounts:{OTHER}" in text
    exempt = [
        m for m in bundle if m.kind == "ValidatingAdmissionPolicy" and f'"{OTHER}"' in json.dumps(m.body)
    ]
    assert len(exempt) > 10


def test_nothing_but_the_name_differs() -> None:
    """The very same objects: a name is put in the place of the other."""
    usual, other = (generate(plan_of(data_of("prod", namespace=name))) for name in (USUAL, OTHER))
    assert len(usual.manifests) == len(other.manifests)
    assert {str(m) for m in other} == {
        str(m).replace(f" {USUAL}/", f" {OTHER}/").replace(f"Namespace {USUAL}", f"Namespace {OTHER}")
        for m in usual
    }
    assert [m.wave for m in other if m.mounted_by_operator] == [
        m.wave for m in usual if m.mounted_by_operator
    ]


@pytest.mark.parametrize(
    ("namespace", "changes", "refused"),
    [
        ("nvidia", {}, False),
        ("nvidia", {"install": False}, False),
        ("openshift-nvidia", {"install": False}, False),
        ("kube-system", {"install": False}, False),
        ("kube-system", {}, True),
        ("default", {"install": False}, True),
        ("kube-public", {"install": False}, True),
        ("gpupool-system", {}, True),
        ("team-family", {}, True),
        ("Nvidia", {}, True),
        ("a.b", {}, True),
        ("", {}, True),
    ],
)
def test_names_that_can_be_the_operators(namespace: str, changes: dict[str, Any], refused: bool) -> None:
    data = data_of("homelab", namespace=namespace, **changes)
    data["tenants"][0]["namespace"] = "team-family"
    if not refused:
        plan_of(data)
        return
    with pytest.raises(SpecError) as error:
        plan_of(data)
    paths = {finding.path for finding in error.value.findings}
    assert paths & {"gpuOperator.namespace", "tenants[0].namespace"}


@pytest.mark.parametrize(("engine", "namespace"), [("argocd", "argocd"), ("flux", "flux-system")])
def test_the_deliverers_namespace_is_not_the_operators(engine: str, namespace: str) -> None:
    data = with_everything("homelab", engine)
    data["gpuOperator"]["namespace"] = namespace
    with pytest.raises(SpecError, match="can't be the GPU Operator's"):
        plan_of(data)
