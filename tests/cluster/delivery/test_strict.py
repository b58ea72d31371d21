"""Every rendered file is one that an API server takes, field by field, the wrappers' own kinds included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.cluster.kube_api import ApiError
from gpupool.generators import generate
from gpupool.generators.render import files
from gpupool.plan.resolve import read_plan
from tests.cluster.operator_policy import hand_made_policy

GOLDEN = Path(__file__).parents[2] / "golden" / "delivery"
READ_BY_KUSTOMIZE = "kustomization.yaml"
"""Never sent to a server; test_convergence.py builds with them."""


def objects(name: str) -> dict[str, Any]:
    """Path -> every object that a rendering has for a server."""
    rendered = files(generate(read_plan(str(GOLDEN / f"{name}.yaml"))))
    return {
        f"{name}/{path}": yaml.load(text, Loader=yaml.CSafeLoader)
        for path, text in rendered.items()
        if not path.startswith("releases/")
        and path.endswith(".yaml")
        and Path(path).name != READ_BY_KUSTOMIZE
    }


def test_the_server_takes_every_file(gitops_kinds: Any) -> None:
    rendered = objects("edge-argocd") | objects("edge-flux") | objects("home-flux")
    gitops_kinds.apply(hand_made_policy())
    for space in {body["metadata"].get("namespace") for body in rendered.values()} - {None}:
        gitops_kinds.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    for path, body in rendered.items():
        try:
            # Unknown fields are refused and the definitions' own rules run, though nothing is stored.
            gitops_kinds.api.apply(body, "gitops", force=True, dry_run=True)
        except ApiError as error:
            pytest.fail(f"{path}: {error}")
    kinds = {body["kind"] for body in rendered.values()}
    assert {"Application", "AppProject", "HelmRelease", "HelmRepository", "OCIRepository"} <= kinds
    assert {"Kustomization", "GitRepository", "EC2NodeClass", "NodePool", "Deployment", "Node"} <= kinds
    wrong = rendered["edge-flux/delivery/flux/kustomization-gpupool-edge-flux-pools.yaml"]
    wrong["spec"]["depends"] = []
    with pytest.raises(ApiError, match="depends"):  # so that all this can fail
        gitops_kinds.api.apply(wrong, "gitops", force=True, dry_run=True)
