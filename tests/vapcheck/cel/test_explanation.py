"""Where in the object a failed expression points, and the values that it shows."""

from typing import Any

import pytest

from vapcheck.cel.environment import Environment
from vapcheck.cel.errors import EvaluationError
from vapcheck.cel.explanation import Explanation, explain
from vapcheck.cel.program import Scope

POD: dict[str, Any] = {
    "metadata": {"name": "web", "labels": {"app": "web", "team/x": ""}},
    "spec": {
        "initContainers": [{"name": "init", "image": "busybox:1"}],
        "containers": [
            {"name": "a", "image": "nginx@sha256:1", "resources": {"limits": {"cpu": "1"}}},
            {"name": "b", "image": "redis:7", "env": [{"name": "X"}, {"name": "BAD"}]},
        ],
        "replicas": 3,
    },
}


def explained(expression: str, **variables: str) -> Explanation:
    environment, programs = Environment.admission(), {}
    for name, text in variables.items():
        programs[name] = environment.compile(text)
        environment = environment.with_variable(name, programs[name])
    return explain(environment.compile(expression), Scope({"object": POD}).with_variables(programs))


@pytest.mark.parametrize(
    ("expression", "path", "readings"),
    [
        ("object.spec.replicas <= 2", "spec.replicas", {"object.spec.replicas": 3}),
        (
            "object.spec.containers.all(c, c.image.contains('@'))",
            "spec.containers[1].image",
            {"c.image": "redis:7"},
        ),
        ("!object.spec.containers.exists(c, c.name == 'b')", "spec.containers[1].name", {"c.name": "b"}),
        (
            "object.spec.containers.all(c, !has(c.env) || c.env.all(e, e.name != 'BAD'))",
            "spec.containers[1].env[1].name",
            {"e.name": "BAD"},
        ),
        ("object.metadata.labels.all(k, object.metadata.labels[k] != '')", "metadata.labels['team/x']", None),
        ("object.metadata.labels.all(k, v, v != '')", "metadata.labels['team/x']", None),
        (
            "object.spec.replicas > 1 && object.metadata.name == 'x'",
            "metadata.name",
            {"object.metadata.name": "web"},
        ),
        ("object.?spec.?replicas.orValue(0) == 1", "spec.replicas", None),
        ("object.spec.replicas == 1 ? true : object.metadata.name == 'x'", "metadata.name", None),
        ("has(object.spec.nodeSelector)", "spec.nodeSelector", {"has(object.spec.nodeSelector)": False}),
    ],
)
def test_the_reason_is_found(expression: str, path: str, readings: dict[str, Any] | None) -> None:
    found = explained(expression)
    assert found.path == path
    if readings is not None:
        assert dict(found.readings).items() >= readings.items()


def test_variables_are_seen_through() -> None:
    found = explained(
        "variables.containers.all(c, variables.pinned || c.image.contains('@sha256:'))",
        containers="object.spec.containers + object.spec.?initContainers.orValue([])",
        pinned="object.spec.replicas > 5",
    )
    assert found.path == "spec.containers[1].image"
    assert explained("variables.all", all="object.spec.replicas == 1").path == "spec.replicas"


def test_an_error_is_a_reading() -> None:
    found = explained("object.spec.containers.all(c, c.resources.limits.cpu == '1')")
    assert found.path == "spec.containers[1].resources.limits.cpu"
    assert [str(value) for _, value in found.readings if isinstance(value, EvaluationError)] == [
        "no such key: resources"
    ]


def test_what_cannot_be_explained_is_left_out() -> None:
    assert explained("1 == 2") == Explanation("", ())
    assert explained("false") == Explanation("", ())
    assert explained("[1, 2].all(x, x == 1)").path == ""
