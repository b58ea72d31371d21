"""What `gpupool doctor` says without a cluster, and the tables that it is made of."""

from __future__ import annotations

import json
import re
import typing
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from gpupool.adopt.doctor import reasons
from gpupool.adopt.doctor.components import show
from gpupool.adopt.doctor.reasons import Reason
from gpupool.adopt.doctor.references import named_secrets
from gpupool.environment.spec.environment import Environment
from gpupool.environment.spec.queue import SecretRef
from gpupool.live.cluster.karpenter_gates import is_on
from tests.adopt.doctor.fake_api import FakeApi
from tests.adopt.doctor.files import EKS, HOMELAB
from tests.command import gpupool
from tests.environment_files import environment_data


def deployment(variable: str | None = None, arguments: tuple[str, ...] = ()) -> dict[str, Any]:
    env = [] if variable is None else [{"name": "FEATURE_GATES", "value": variable}]
    container = {
        "name": "controller",
        "env": [{"name": "OTHER", "value": "NodeOverlay=true"}, *env],
        "args": list(arguments),
    }
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


@pytest.mark.parametrize(
    ("live", "overlay", "reserved"),
    [
        (deployment(), False, True),
        (deployment("NodeOverlay=true"), True, True),
        (deployment("NodeRepair=false, NodeOverlay=True"), True, True),
        (deployment("NodeOverlayed=true,ReservedCapacity=false"), False, False),
        (deployment("NodeOverlay=true", ("--feature-gates=NodeOverlay=false",)), False, True),
        (
            deployment("NodeOverlay=false", ("--log-level", "debug", "--feature-gates", "NodeOverlay=true")),
            True,
            True,
        ),
    ],
)
def test_karpenters_gates(live: dict[str, Any], overlay: bool, reserved: bool) -> None:
    assert (is_on(live, "NodeOverlay"), is_on(live, "ReservedCapacity")) == (overlay, reserved)


def secret_fields(model: type[BaseModel], path: str) -> set[str]:
    """Fields below a type that may hold a SecretRef."""
    fields = set()
    for name, info in model.model_fields.items():
        for kind in (info.annotation, *typing.get_args(info.annotation)):
            if isinstance(kind, type) and issubclass(kind, SecretRef):
                fields.add(f"{path}{name}")
            elif isinstance(kind, type) and issubclass(kind, BaseModel):
                fields |= secret_fields(kind, f"{path}{name}.")
    return fields


def test_every_secret_that_a_file_can_name_is_found() -> None:
    reference = {"name": "some", "key": "url"}
    queue = {
        "database": {"secretRef": reference},
        "nats": {"url": "nats://nats:4222", "secretRef": reference},
        "metricsKeySecretRef": reference,
        "alerts": {
            "webhookSecretRef": reference,
            "smtp": {"host": "mail", "from": "a@b.c", "to": ["a@b.c"], "secretRef": reference},
        },
    }
    delivery = {"engine": "flux", "flux": {"secret": "git"}}
    data = environment_data("static", pools=[], queue=queue, delivery=delivery)
    environment = Environment.model_validate(data)
    rows = list(named_secrets(environment))
    plain = {re.sub(r"[A-Z]", lambda big: f"_{big[0].lower()}", row.field) for row in rows}
    assert plain == {*secret_fields(Environment, ""), "delivery.flux.secret"}
    assert next(row.namespace for row in rows if row.name == "git") == "flux-system"


def test_every_reason_is_given_by_a_check() -> None:
    folder = Path(reasons.__file__).parent
    source = "".join(path.read_text() for path in folder.glob("*.py") if path.name != "reasons.py")
    assert [reason.name for reason in Reason if f"Reason.{reason.name}" not in source] == []


def test_a_fix_for_everything_that_blocks() -> None:
    assert [reason.name for reason in Reason if reason.blocks and not reason.value[3]] == []


PROJECT = {
    "Pulumi.yaml": "name: gpupool\nruntime: python\nmain: infra\n",
    "environments/home.yaml": """\
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {name: home}
cluster: {platform: static, name: home, kubeContext: nowhere}
pools:
  - {name: lab, gpu: rtx-4070-ti-super, sharing: {mode: exclusive}, nodes: {names: [a]}}
""",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    return tmp_path


def test_a_cluster_that_is_not_there_leaves_the_rest_checked(folder: Path) -> None:
    done = gpupool("doctor", "home", "--format", "json", folder=folder)
    assert done.returncode == 1, done.stderr
    rows = {row["check"]: row for row in json.loads(done.stdout)["results"]}
    assert rows["context"]["reason"] == "context-unusable"
    assert rows["context"]["blocks"]
    assert rows["file"]["state"] == "ok"
    assert rows["kinds"]["reason"] == "not-checked-cluster"
    text = gpupool("doctor", "home", folder=folder).stdout
    assert "set KUBECONFIG" in text
    assert text.rstrip().splitlines()[-1].startswith("home: ")


def test_a_file_with_findings_says_where_and_still_looks_at_the_machine(folder: Path) -> None:
    path = folder / "environments" / "home.yaml"
    path.write_text(path.read_text().replace("mode: exclusive", "mode: shared"))
    done = gpupool("doctor", "home", "--format", "json", folder=folder)
    rows = {row["check"]: row for row in json.loads(done.stdout)["results"]}
    assert done.returncode == 1
    assert rows["file"]["reason"] == "file-finding"
    assert "home.yaml:6:" in rows["file"]["remediation"]
    assert rows["kinds"]["reason"] == "not-checked-file"
    assert rows["context"]["reason"] == "context-unusable"


def test_a_file_that_is_not_there_is_wrong_use(folder: Path) -> None:
    done = gpupool("doctor", "work", folder=folder)
    assert done.returncode == 2
    assert "there are: home" in done.stderr


def test_helm_is_asked_for_charts_of_both_sorts() -> None:
    from gpupool.generators.manifest import HelmRelease

    plain = HelmRelease("a", "n", "gpu-operator", "https://charts.example.com", "v1", {})
    registry = HelmRelease("a", "n", "karpenter", "oci://registry.example.com/k/", "1.2", {})
    assert show(plain) == [
        "show",
        "chart",
        "gpu-operator",
        "--repo",
        "https://charts.example.com",
        "--version",
        "v1",
    ]
    assert show(registry) == ["show", "chart", "oci://registry.example.com/k/karpenter", "--version", "1.2"]


def test_lines_are_80_characters_but_for_single_words(
    diagnosed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from gpupool.cli import doctor

    for text in (EKS, HOMELAB):
        doctor._print(diagnosed(text, FakeApi(refuses=lambda asked: asked[0] in ("get", "list"))))
    lines = capsys.readouterr().out.splitlines()
    long = [line for line in lines if len(line) > 80 and len(line.split()[-1]) < 50]
    assert len(lines) > 40
    assert long == []
