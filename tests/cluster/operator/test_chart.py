"""The values of every environment make objects that an API server takes, by each way to install the chart.

The server has the chart's own CRDs, and no controllers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given

from gpupool.environment.plan.operator_place import operator_place
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.environment import OPERATOR_NAMESPACE
from gpupool.environment.spec.load import environment_names
from gpupool.generators import generate
from gpupool.live.cluster.kube_api import ApiError
from gpupool.local import crds
from gpupool.local.bare_server import bare_server
from tests.cluster.operator.chart import RELEASE, Installer, values
from tests.cluster.policies.server import Server
from tests.environment_combinations import LEGAL
from tests.environment_files import Data, plan_of
from tests.environment_strategies import environments
from tests.examples import examples
from vapcheck.server.minors import NEWEST

Object = dict[str, Any]
ROOT = Path(__file__).parents[3]
POLICY = ("nvidia.com/v1", "ClusterPolicy", "cluster-policy")


@pytest.fixture(scope="module")
def installer(chart: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installer]:
    with bare_server(NEWEST) as plane:
        api = plane.api()
        for file in chart.rglob("crds/*.yaml"):
            crds.serve(api, [one for one in yaml.safe_load_all(file.read_bytes()) if one])
        name = {"name": OPERATOR_NAMESPACE}
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": name})
        api.close()
        yield Installer(plane.kubeconfig, chart, tmp_path_factory.mktemp("chart"))


@pytest.fixture(scope="module")
def server(installer: Installer) -> Iterator[Server]:
    found = Server(installer.kubeconfig)
    yield found
    found.api.close()


def by_client_side_apply(installer: Installer, given: Object) -> Callable[[], object]:
    things = installer.rendered(given)
    installer.kubectl("apply", things)
    return lambda: installer.kubectl("delete", things)


def by_server_side_apply(installer: Installer, given: Object) -> Callable[[], object]:
    things = installer.rendered(given)
    installer.kubectl("apply", things, "--server-side")
    return lambda: installer.kubectl("delete", things)


def by_helm_3(installer: Installer, given: Object) -> Callable[[], object]:
    return _by_helm(installer, "helm", given)


def by_helm_4(installer: Installer, given: Object) -> Callable[[], object]:
    """It applies by the server, with the same checks as `kubectl apply --server-side`."""
    return _by_helm(installer, "helm4", given)


def _by_helm(installer: Installer, program: str, given: Object) -> Callable[[], object]:
    installer.helm(program, "install", given, "--no-hooks")
    installer.helm(program, "upgrade", given, "--no-hooks")
    where = ("--namespace", OPERATOR_NAMESPACE, "--no-hooks")
    return lambda: installer.run(program, "uninstall", RELEASE, *where)


WAYS = (by_client_side_apply, by_server_side_apply, by_helm_3, by_helm_4)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", environment_names())
def test_the_chart_is_installed_with_the_values_of_an_environment(
    installer: Installer, server: Server, name: str, way: Any
) -> None:
    given = values(read_plan(name))
    remove = way(installer, given)
    try:
        found = server.api.get(*POLICY)
        assert found is not None
        says_what_was_given(found["spec"], given)
    finally:
        remove()
    assert server.api.get(*POLICY) is None


@examples("operator", 12)
@given(environment=environments(among=[it for it in LEGAL if it.operator != "cloud"]))
def test_the_policy_of_any_environment_is_taken(
    installer: Installer, server: Server, environment: Data
) -> None:
    given = values(plan_of(environment))
    (policy,) = installer.rendered(given, "--show-only", "templates/clusterpolicy.yaml")
    made = server.ask("CREATE", policy, strict=True)
    assert made.status == 201, made.message
    _, applied = server.api.apply(policy, "tests", dry_run=True)
    says_what_was_given(applied["spec"], given)


def test_the_policy_of_a_local_environment_is_taken(server: Server) -> None:
    """It has no chart."""
    (policy,) = (manifest for manifest in generate(read_plan("local")) if manifest.kind == "ClusterPolicy")
    server.api.apply(dict(policy.body), "tests", dry_run=True)


def test_a_value_that_the_chart_writes_as_nothing_is_refused(installer: Installer, server: Server) -> None:
    """So that the tests above can fail (gpu-operator issue 478)."""
    given = values(read_plan("prod"))
    (policy,) = installer.rendered(
        {**given, "mig": {"strategy": ""}}, "--show-only", "templates/clusterpolicy.yaml"
    )
    with pytest.raises(ApiError, match=r"spec\.mig"):
        server.api.apply(policy, "tests", dry_run=True)


def says_what_was_given(spec: Object, given: Object) -> None:
    """The ClusterPolicy names our ConfigMaps, tolerates our taints, and has a strategy of MIG."""
    assert spec["mig"] == {"strategy": given["mig"]["strategy"]}
    assert spec["daemonsets"]["tolerations"] == given["daemonsets"]["tolerations"]
    for part in ("devicePlugin", "migManager", "dcgmExporter"):
        named = given.get(part, {}).get("config", {}).get("name")
        assert not named or spec[part]["config"]["name"] == named
    assert spec["driver"]["enabled"] == given.get("driver", {}).get("enabled", True)


def test_in_another_namespace_the_policy_names_what_its_operands_can_mount(
    installer: Installer, server: Server
) -> None:
    text = (ROOT / "environments" / "prod.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    data["metadata"] = {"name": "random"}
    data["gpuOperator"] = {**data.get("gpuOperator", {}), "namespace": "nvidia"}
    plan = plan_of(data)
    elsewhere = dataclasses.replace(installer, namespace=plan.gpu_operator.namespace)
    server.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nvidia"}})
    for manifest in generate(plan):
        if manifest.mounted_by_operator:
            server.api.apply(dict(manifest.body), "tests")
    elsewhere.helm("helm", "install", values(plan), "--no-hooks")
    try:
        policy = server.api.get(*POLICY)
        assert policy is not None
        place = operator_place([policy])
        assert place is not None
        assert place.namespace == "nvidia"
        for operand in ("devicePlugin", "migManager", "dcgmExporter"):
            name = policy["spec"][operand]["config"]["name"]
            assert server.api.get("v1", "ConfigMap", name, "nvidia") is not None, operand
        assert server.api.get("apps/v1", "Deployment", "gpu-operator", "nvidia") is not None
        assert not server.api.list(
            "v1", "ConfigMap", OPERATOR_NAMESPACE, "app.kubernetes.io/managed-by=gpupool"
        )
    finally:
        elsewhere.run("helm", "uninstall", RELEASE, "--namespace", "nvidia", "--no-hooks")
        server.api.delete("v1", "Namespace", "nvidia")
