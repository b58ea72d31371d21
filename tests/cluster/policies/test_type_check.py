"""The type check against the API server's own: the same parts of the same expressions, for the same kinds."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.live.cluster import kubeconfig
from gpupool.live.cluster.kube_api import KubeApi
from tests.vapcheck.type_check.kind_by_kind import type_check_each
from vapcheck import Kinds, from_bodies
from vapcheck.policy.reader import read_policy

Object = dict[str, Any]
TABLE: Object = yaml.safe_load(Path(__file__).with_name("type_check_cases.yaml").read_text())
POLICY = "ValidatingAdmissionPolicy"
VERSION = "admissionregistration.k8s.io/v1"
SECONDS = 180.0
"""How long the controller may take for all of them."""
Place = tuple[str, int, int]
"""Kind, line and column of a part of an expression."""


def policy(name: str, group: Object, expression: str) -> Object:
    rules = [{**rule, "operations": ["CREATE"]} for rule in group["resources"]]
    spec: Object = {
        "matchConstraints": {"resourceRules": rules},
        "variables": group.get("variables", []),
        "validations": [{"expression": expression}],
    }
    if "paramKind" in group:
        spec["paramKind"] = group["paramKind"]
    return {"apiVersion": VERSION, "kind": POLICY, "metadata": {"name": name}, "spec": spec}


CASES = {
    f"type-check-{number}-{index}": (policy(f"type-check-{number}-{index}", group, row["expression"]), row)
    for number, group in enumerate(TABLE["groups"])
    for index, row in enumerate(group["expressions"])
}


@pytest.fixture(scope="module")
def statuses(compared: Path) -> Iterator[dict[str, Object]]:
    """What the server's controller wrote about each policy."""
    api = KubeApi(kubeconfig.load(compared, None))
    for body, _ in CASES.values():
        api.create(body)
    yield _checked(api)
    for name in CASES:
        api.delete(VERSION, POLICY, name)
    api.close()


def _checked(api: KubeApi) -> dict[str, Object]:
    deadline = time.monotonic() + SECONDS
    while True:
        found = {item["metadata"]["name"]: item.get("status", {}) for item in api.list(VERSION, POLICY)}
        missing = [name for name in CASES if "typeChecking" not in found.get(name, {})]
        if not missing:
            return found
        assert time.monotonic() < deadline, f"not checked by the server: {missing}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def kinds(compared: Path) -> Kinds:
    api = KubeApi(kubeconfig.load(compared, None))
    found = api.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    api.close()
    return Kinds.builtin().with_crds(from_bodies(found, "the server"))


@pytest.mark.parametrize("name", CASES, ids=lambda name: f"{name}: {CASES[name][1]['expression']}")
def test_same_parts_are_found(name: str, statuses: dict[str, Object], kinds: Kinds) -> None:
    body, row = CASES[name]
    theirs, ours = servers(statuses[name]), own(body, kinds)
    if "only" in row:
        assert bool(theirs) == (row["only"] == "server")
        assert bool(ours) == (row["only"] == "us")
    else:
        assert ours == theirs


def servers(status: Object) -> set[Place]:
    places = set[Place]()
    for row in status["typeChecking"].get("expressionWarnings", []):
        assert row["fieldRef"] == "spec.validations[0].expression"
        kind = ""
        for line in row["warning"].splitlines():
            kind = found[1] if (found := re.match(r"\S+, Kind=(\w+): ", line)) else kind
            places |= {
                (kind, int(at[1]), int(at[2])) for at in re.finditer(r"ERROR: <input>:(\d+):(\d+)", line)
            }
    return places


def own(body: Object, kinds: Kinds) -> set[Place]:
    read, problems = read_policy(from_bodies([body], "")[0])
    assert not problems
    found = type_check_each(read, kinds)
    assert {warning.expression.path for warning in found} <= {"spec.validations[0].expression"}
    return {(kind.kind, row.line, row.column) for row in found for kind in row.kinds}
