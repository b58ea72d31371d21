"""The queue's chart as a release: when there is one, what it is given, and that every engine delivers it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.schema.chart_values import Values
from gpupool.environment.schema.published import VALUES_FILE, text
from gpupool.generators import HelmRelease, delivery, generate
from gpupool.generators.render import files
from gpupool.live.objects.resource_values import release_properties
from tests.environment_files import Data, environment_data, plan_of, write_environment

IMAGE = "registry.example/gpupool:0.1.0"
QUEUE: Data = {
    "chart": {"repository": "oci://registry.example/charts", "image": IMAGE},
    "database": {"secretRef": {"name": "queue", "key": "url"}},
}
MORE: Data = {
    "chart": {**QUEUE["chart"], "version": "1.2.3", "values": {"api": {"replicas": 3}}},
    "nats": {"url": "nats://nats.messaging", "secretRef": {"name": "nats", "key": "url"}},
    "idle": {"prometheus": "http://prometheus.monitoring:9090"},
    "targets": ["https://models.example.com", "http://triton.serving:8000"],
    "auth": {"issuer": "https://id.example.com:8443", "audience": "gpupool"},
    "alerts": {
        "webhookSecretRef": {"name": "alerts", "key": "webhook"},
        "smtp": {
            "host": "smtp.example.com",
            "from": "a@example.com",
            "to": ["b@example.com"],
            "secretRef": {"name": "alerts", "key": "password"},
        },
    },
}


def environment(queue: Data | None = None, **fields: Any) -> Data:
    return environment_data("static", queue=QUEUE | (queue or {}), **fields)


def release(queue: Data | None = None, **fields: Any) -> HelmRelease | None:
    found = [
        one for one in generate(plan_of(environment(queue, **fields))).releases if one.name != "gpu-operator"
    ]
    return found[0] if found else None


@pytest.mark.parametrize(
    "changed",
    [
        {"queue": {"chart": None}},
        {"queue": {"enabled": False}},
        {"cluster": {"platform": "local", "name": "x"}},
    ],
    ids=["no chart", "not enabled", "local"],
)
def test_there_is_none_where_nothing_would_run(changed: Data) -> None:
    queue = {name: value for name, value in (QUEUE | changed.pop("queue", {})).items() if value is not None}
    made = generate(plan_of(environment() | {"queue": queue} | changed))
    assert "gpu-scheduler" not in {one.name for one in made.releases}
    assert release() is not None


def test_values_are_what_the_file_amounts_to() -> None:
    found = release(MORE)
    assert found is not None
    assert (found.chart, found.repository, found.version) == (
        "gpu-scheduler",
        "oci://registry.example/charts",
        "1.2.3",
    )
    values = dict(found.values)
    (path, written), *others = values.pop("files").items()
    assert (path, others) == ("environments/trial.yaml", [])
    assert yaml.safe_load(written)["queue"]["chart"]["image"] == IMAGE
    assert values == {
        "image": IMAGE,
        "environment": "trial",
        "database": {"name": "queue", "key": "url"},
        "webhook": {"name": "alerts", "key": "webhook"},
        "smtpPassword": {"name": "alerts", "key": "password"},
        "nats": {"name": "nats", "key": "url"},
        "api": {"egressPorts": [443, 5432, 6443, 8443, 9090], "replicas": 3},
        "dispatcher": {"egressPorts": [443, 587, 4222, 5432, 9090]},
        "executor": {"egressPorts": [443, 5432, 6443, 8000]},
    }


def test_what_the_project_adds_goes_along(tmp_path: Path) -> None:
    for folder in ("catalog", "policies"):
        (tmp_path / folder).mkdir()
    card = (VALUES_FILE.parents[2] / "gpupool" / "environment" / "catalog" / "t4.yaml").read_text()
    (tmp_path / "catalog" / "our-t4.yaml").write_text(card.split("instanceTypes:")[0])
    (tmp_path / "policies" / "ours.yaml").write_text("# None yet.\n")
    pools = [{"name": "a", "gpu": "our-t4", "nodes": {"names": ["n1"], "gpus": 1}}]
    path = write_environment(tmp_path / "environments", environment(pools=pools))
    (found,) = (one for one in generate(read_plan(str(path))).releases if one.name == "gpu-scheduler")
    assert sorted(found.values["files"]) == [
        "catalog/our-t4.yaml",
        "environments/trial.yaml",
        "policies/ours.yaml",
    ]
    assert found.values["files"]["environments/trial.yaml"] == path.read_text()


def test_every_engine_delivers_it() -> None:
    plain = release(MORE)
    assert plain is not None
    assert release_properties(plain)["chart"] == "oci://registry.example/charts/gpu-scheduler"
    by = {"repo": "https://git.example/platform.git", "path": "rendered/trial"}
    for engine, kind in (("argocd", "Application"), ("flux", "HelmRelease")):
        made = generate(plan_of(environment(MORE, delivery={"engine": engine, **by})))
        assert "releases/gpu-scheduler.yaml" in files(made)
        objects = [one for one in delivery.wrappers(made).values() if one["kind"] == kind]
        (ours,) = (one for one in objects if one["metadata"]["name"] == "gpupool-trial-gpu-scheduler")
        helm = (
            ours["spec"]["source"]["helm"]["valuesObject"] if engine == "argocd" else ours["spec"]["values"]
        )
        assert helm == plain.values | {"files": helm["files"]}


def test_the_published_schema_is_that_of_the_values() -> None:
    assert text("values") == VALUES_FILE.read_text(), "run: make schema"


def test_the_charts_defaults_are_those_of_the_schema() -> None:
    defaults = yaml.safe_load((VALUES_FILE.parent / "values.yaml").read_text())
    given = {"image": IMAGE, "environment": "a", "files": {}, "database": {"name": "a", "key": "b"}}
    made = Values(**given).model_dump(by_alias=True, exclude_none=True)
    assert defaults | given == made


def test_the_schema_takes_what_is_generated_and_refuses_what_is_wrong() -> None:
    schema = json.loads(VALUES_FILE.read_text())
    Draft7Validator.check_schema(schema)
    judge = Draft7Validator(schema)
    found = release(MORE)
    assert found is not None
    assert list(judge.iter_errors(found.values)) == []
    for wrong in (
        {"image": "registry.example/gpupool"},
        {"api": {"replicas": "2"}},
        {"replicas": 2},
        {"database": {"name": "a"}},
    ):
        assert list(judge.iter_errors({**found.values, **wrong})), wrong


def test_the_chart_has_gpupools_version() -> None:
    from gpupool import __version__

    chart = yaml.safe_load((VALUES_FILE.parent / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
