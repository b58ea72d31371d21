"""Every rendered file is one that an API server takes, field by field, the wrappers' own kinds included."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.generators.manifest import Bundle
from gpupool.generators.render import files
from gpupool.live.cluster.kube_api import ApiError
from tests.cluster.operator_policy import hand_made_policy
from tests.conftest import FIGURE
from tests.environment_combinations import LEGAL, environment_of
from tests.environment_files import Data, plan_of
from tests.environment_strategies import environments

GOLDEN = Path(__file__).parents[2] / "golden" / "delivery"
READ_BY_KUSTOMIZE = "kustomization.yaml"
"""Never sent to a server; test_convergence.py builds with them."""


def golden(name: str) -> dict[str, Any]:
    """The objects of an environment of the golden files, by name and path."""
    made = generate(read_plan(str(GOLDEN / f"{name}.yaml")))
    return {f"{name}/{path}": body for path, body in objects(made).items()}


def objects(made: Bundle) -> dict[str, Any]:
    """Path -> every object that a rendering has for a server."""
    rendered = files(made)
    return {
        path: yaml.load(text, Loader=yaml.CSafeLoader)
        for path, text in rendered.items()
        if not path.startswith("releases/")
        and path.endswith(".yaml")
        and Path(path).name != READ_BY_KUSTOMIZE
    }


def test_the_server_takes_every_file(gitops_kinds: Any) -> None:
    rendered = golden("edge-argocd") | golden("edge-flux") | golden("home-flux")
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


POLICIES = ("cluster-policy", "gpu-cluster-policy")
PROMETHEUS = Path(__file__).parents[1] / "prometheus_operator.yaml"
RANDOM = 60
"""Random environments."""


class Strict:
    """Sends rendered objects to the server as an engine would, each once; nothing is stored but what they
    need to be tried: namespaces, and the ClusterPolicies of others."""

    def __init__(self, cluster: Any) -> None:
        self.api = cluster.api
        for name in POLICIES:
            cluster.apply({**hand_made_policy(), "metadata": {"name": name}})
        self._spaces = set[str]()
        self._answers: dict[str, str] = {}
        self.kinds = Counter[str]()

    def refusals(self, made: Bundle) -> list[str]:
        """What the server says against the environment's objects, engine's own files included."""
        bodies = {json.dumps(body, sort_keys=True): body for body in objects(made).values()}
        fresh = {text: body for text, body in bodies.items() if text not in self._answers}
        self._make_namespaces(fresh.values())
        with ThreadPoolExecutor(16) as pool:
            self._answers |= zip(fresh, pool.map(self._tried, fresh.values()), strict=True)
        self.kinds.update(body["kind"] for body in fresh.values())
        return [answer for text in bodies if (answer := self._answers[text])]

    def _make_namespaces(self, bodies: Iterable[Any]) -> None:
        for space in {body["metadata"].get("namespace") for body in bodies} - {None} - self._spaces:
            self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}, "tests")
            self._spaces.add(space)

    def _tried(self, body: Any) -> str:
        try:
            self.api.apply(body, "gitops", force=True, dry_run=True)
        except ApiError as error:
            return f"{body['kind']} {body['metadata']['name']}: {error}"
        return ""


def test_the_server_takes_every_object_of_every_combination(gitops_kinds: Any, record_property: Any) -> None:
    with gitops_kinds.kinds(PROMETHEUS) as cluster:
        strict = Strict(cluster)
        for combination in LEGAL:
            refused = strict.refusals(generate(plan_of(environment_of(combination))))
            assert refused == [], combination

        @settings(max_examples=RANDOM, suppress_health_check=list(HealthCheck))
        @given(environments())
        def accepted(environment: Data) -> None:
            for number, tenant in enumerate(environment["tenants"]):
                tenant["namespace"] = f"team-{number}"  # namespaces take seconds to go
            assert strict.refusals(generate(plan_of(environment))) == []

        accepted()
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(strict.kinds.items()))
    record_property(FIGURE, f"objects that the API server takes: {strict.kinds.total()} ({counted})")
