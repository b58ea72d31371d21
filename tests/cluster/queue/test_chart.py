"""The queue's chart by the real helm: rendered as it was, under other values, by our policies, or refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.environment.reserved_addresses import closed_networks
from gpupool.generators import rbac
from tests.cluster.queue.helm import CHART, ENVIRONMENT, MONITOR, RELEASE, Helm, generated
from tests.command import gpupool
from tests.egress import METADATA_SERVICE, NODE, reaches
from tests.queue.api.served import local_plan
from tests.required_programs import require

GOLDEN = ENVIRONMENT.parent / "rendered.yaml"
OTHER: dict[str, dict[str, Any]] = {
    "as generated": {},
    "alone": {name: {"replicas": 1} for name in ("api", "dispatcher", "executor")},
    "watched": MONITOR,
    "open": {"networkPolicy": False},
    "placed": {
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "priorityClassName": "system-cluster-critical",
        "imagePullSecrets": ["registry"],
        "host": "::",
    },
    "pinned": {"image": f"registry.example.com/gpupool@sha256:{'0' * 64}"},
}
MADE = {"api": "Deployment", "dispatcher": "Deployment", "executor": "Deployment", "migration": "Job"}


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(require("helm")["helm"], tmp_path)


def components(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod of each component."""
    component = "app.kubernetes.io/component"
    found = {
        one["metadata"]["labels"][component]: one["spec"]["template"]["spec"]
        for one in objects
        if one["kind"] in MADE.values()
    }
    assert found.keys() == MADE.keys()
    return found


def test_it_renders_what_it_did(helm: Helm) -> None:
    text = helm.done("template", RELEASE, str(CHART))
    if os.environ.get("GPUPOOL_WRITE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "make golden"


def test_lint_finds_nothing(helm: Helm) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm.done("lint", "--strict", str(CHART))


def judged(objects: list[dict[str, Any]], folder: Path) -> tuple[int, str]:
    """What `gpupool policy check` says of them, beside their environment."""
    (folder / "environments").mkdir(exist_ok=True)
    (folder / "environments" / "charted.yaml").write_text(ENVIRONMENT.read_text())
    (folder / "chart.yaml").write_text(yaml.safe_dump_all(objects))
    found = gpupool("policy", "check", "environments/charted.yaml", "chart.yaml", folder=folder)
    return found.returncode, found.stdout


@pytest.mark.parametrize("values", OTHER.values(), ids=OTHER.keys())
def test_rendered_pods_keep_our_policies(helm: Helm, values: dict[str, Any], tmp_path: Path) -> None:
    code, said = judged(helm.template(values), tmp_path)
    assert code == 0, said


def test_policies_judge_rendered_pods(helm: Helm, tmp_path: Path) -> None:
    code, said = judged(helm.template({"image": "docker.io/acme/gpupool:latest"}), tmp_path)
    assert code == 1
    assert said.count("pin-images") >= len(MADE)
    assert "images-from-allowed-registries" in said


def test_values_change_what_they_name(helm: Helm) -> None:
    def kinds(values: dict[str, Any]) -> dict[str, int]:
        made = [one["kind"] for one in helm.template(values)]
        return {kind: made.count(kind) for kind in set(made)}

    usual = kinds({})
    assert usual == {
        "ConfigMap": 1,
        "Deployment": 3,
        "Job": 1,
        "NetworkPolicy": 4,
        "PodDisruptionBudget": 3,
        "Service": 1,
    }
    assert kinds(OTHER["alone"]) == {kind: n for kind, n in usual.items() if kind != "PodDisruptionBudget"}
    assert kinds(MONITOR) == usual | {"Service": 2, "ServiceMonitor": 1}
    assert kinds(OTHER["open"]) == {kind: n for kind, n in usual.items() if kind != "NetworkPolicy"}
    for pod in components(helm.template(OTHER["placed"])).values():
        assert pod["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
        assert pod["tolerations"] == OTHER["placed"]["tolerations"]
        assert pod["priorityClassName"] == "system-cluster-critical"
        assert pod["imagePullSecrets"] == [{"name": "registry"}]


@pytest.mark.parametrize("ports", [None, [80], [8080, 443]])
def test_pods_reach_their_ports_and_never_the_metadata_service(helm: Helm, ports: list[int] | None) -> None:
    """Database and API server too where an ipBlock matches no node, as under Cilium."""
    parts = ("api", "dispatcher", "executor")
    values = {part: {"egressPorts": ports} for part in parts} if ports else {}
    made = [one for one in helm.template(values) if one["kind"] == "NetworkPolicy"]
    given = generated() | values
    assert len(made) == len(MADE)
    for one in made:
        component = one["metadata"]["labels"]["app.kubernetes.io/component"]
        opened = given["api" if component == "migration" else component]["egressPorts"]
        for port in (53, 80, 443, 5432, 6443, 8080):
            assert reaches(one["spec"], "203.0.113.1", port) == (port in (53, *opened)), (component, port)
            assert reaches(one["spec"], NODE, port) == (port in {53, *opened} - {80}), (component, port)
        assert not any(reaches(one["spec"], address, 80) for address in METADATA_SERVICE)
        rules = (rule for rule in one["spec"]["egress"] if "to" in rule)
        closed = [[to["ipBlock"]["except"] for to in rule["to"] if "ipBlock" in to] for rule in rules]
        assert all(each == [closed_networks(4), closed_networks(6)] for each in closed)


def test_who_has_a_token_and_which_secrets(helm: Helm) -> None:
    """Accounts are the generator's; no token where no API server is asked, and no secret that is not used."""
    made = components(helm.template())
    accounts = {name: pod.get("serviceAccountName") for name, pod in made.items()}
    assert accounts == {
        "api": "gpupool-api",
        "dispatcher": None,
        "executor": "gpupool-launcher",
        "migration": None,
    }
    generated = {one.name for one in rbac.generate(local_plan()) if one.kind == "ServiceAccount"}
    assert {name for name in accounts.values() if name} == generated
    secrets = {}
    for name, pod in made.items():
        assert pod["automountServiceAccountToken"] is (accounts[name] is not None)
        (container,) = pod["containers"]
        refs = [row["valueFrom"]["secretKeyRef"] for row in container["env"] if "valueFrom" in row]
        secrets[name] = {f"{ref['name']}/{ref['key']}" for ref in refs}
        assert ("--in-cluster" in container.get("args", ())) is (accounts[name] is not None)
    url, alerts = {"queue-database/url"}, {"queue-alerts/webhook", "queue-alerts/password"}
    assert secrets == {"api": url, "dispatcher": url | alerts, "executor": url, "migration": url}


def test_each_deployment_may_have_a_database_login_of_its_own(helm: Helm) -> None:
    """And the migration keeps the owner's; without values all have that."""

    def urls(values: dict[str, Any]) -> dict[str, str]:
        refs = {}
        for name, pod in components(helm.template(values)).items():
            (row,) = (row for row in pod["containers"][0]["env"] if row["name"] == "GPUPOOL_DATABASE_URL")
            refs[name] = "{name}/{key}".format(**row["valueFrom"]["secretKeyRef"])
        return refs

    parts = ("api", "dispatcher", "executor")
    usual = dict.fromkeys(MADE, "queue-database/url")
    assert urls({}) == usual
    for chosen in (("api",), parts):
        own = {part: {"database": {"name": f"queue-{part}", "key": "dsn"}} for part in chosen}
        assert urls(own) == usual | {part: f"queue-{part}/dsn" for part in chosen}


def test_the_command_takes_what_pods_give_it(helm: Helm, tmp_path: Path) -> None:
    """With one more option that is refused, so that nothing is served."""
    for name, pod in components(helm.template()).items():
        if name != "migration":
            (container,) = pod["containers"]
            found = gpupool(*container["args"], "--nonsense", folder=tmp_path)
            assert "No such option" in found.stderr
            assert "--nonsense" in found.stderr


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"image": ""}, "image"),
        ({"image": "registry.example.com/gpupool"}, "image"),
        ({"image": None}, "image"),
        ({"api": {"replicas": "many"}}, "replicas"),
        ({"api": {"replica": 3}}, "replica"),
        ({"databaseUrl": "postgresql://user:password@host/name"}, "databaseUrl"),
        ({"api": {"egressPorts": []}}, "egressPorts"),
        ({"api": {"database": "postgresql://user:password@host/name"}}, "database"),
        ({"executor": {"database": {"name": "queue-executor"}}}, "key"),
        ({"serviceMonitor": {"interval": "30s"}}, "apiKey"),
        ({"environment": "other"}, "files has no environments/other.yaml"),
    ],
)
def test_wrong_values_are_refused_by_name(helm: Helm, values: dict[str, Any], said: str) -> None:
    found = helm.run("template", RELEASE, str(CHART), values=values)
    assert found.returncode != 0
    assert said in found.stderr
