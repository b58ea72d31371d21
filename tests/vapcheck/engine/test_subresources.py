"""Which requests objects are given for where a subresource is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from vapcheck import Kinds
from vapcheck.server.subresources import subresource_of

KINDS = Kinds.builtin()


def body(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "labels": {}}, **fields}


@pytest.mark.parametrize(
    ("asked", "given", "found"),
    [
        ("exec", body("v1", "Pod"), "CONNECT pods PodExecOptions"),
        ("pods/exec", body("v1", "PodExecOptions"), "CONNECT pods PodExecOptions"),
        ("nodes/exec", body("v1", "Pod"), None),
        ("exec", body("apps/v1", "Deployment"), None),
        ("proxy", body("v1", "ServiceProxyOptions"), "CONNECT services ServiceProxyOptions"),
        ("eviction", body("v1", "Pod"), "CREATE pods Eviction"),
        ("ephemeralcontainers", body("v1", "Pod"), "UPDATE pods Pod"),
        ("pods/status", body("batch/v1", "Job"), None),
        ("scale", body("apps/v1", "Deployment"), "UPDATE deployments Scale"),
        ("statefulsets.apps/scale", body("autoscaling/v1", "Scale"), "UPDATE statefulsets Scale"),
        ("statefulsets.batch/scale", body("autoscaling/v1", "Scale"), None),
        ("scale", body("autoscaling/v1", "Scale"), None),
    ],
)
def test_what_is_asked_for(asked: str, given: dict[str, Any], found: str | None) -> None:
    it = subresource_of(given, asked, KINDS)
    said = it and f"{it.operation} {it.parent.plural} {it.object_of(given)['kind']}"
    assert said == found


def test_a_scale_is_made_of_its_parent() -> None:
    given = body("apps/v1", "Deployment", spec={"replicas": 3})
    it = subresource_of(given, "scale", KINDS)
    assert it is not None
    made = it.object_of(given)
    assert (made["apiVersion"], made["metadata"], made["spec"]) == (
        "autoscaling/v1",
        {"name": "a"},
        {"replicas": 3},
    )
    nothing = body("autoscaling/v1", "Scale", spec={"replicas": 0})
    assert it.object_of(nothing)["spec"] == {}, "the server leaves a zero out"
