"""The table of shipped policies in the documentation says what the policies say of themselves.

`make golden` writes it again from their annotations.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.plan.policy_files import BINDING, POLICY, SHIPPED, read_objects
from vapcheck.fixtures.suites import read_suites

TABLE = Path(__file__).parents[2] / "docs" / "policy-table.md"
_HEAD = """# The policies that ship

Written from the policies' own annotations (`make golden`). *On a violation* is what the binding says;
`policies.default` and `policies.overrides` of the environment file change it. *Judges by* is the ConfigMap in
`gpupool-system` that is made from the environment file; where it is missing, as in a folder of foreign
manifests, the policy is not applied. *Judges*: what of the cluster; `policies.scope` of the environment file
changes it where the table says so. GPU pods and jobs in `gpu-operator` and `kube-system` are left out.

| policy | guards | why | to put it right | on a violation | judges | judges by |
|---|---|---|---|---|---|---|
"""
_GPU = "asks-for-a-gpu"
_ON_A_POOL = "GPU pods of all namespaces"
_JUDGED = {
    "claims-are-of-allowed-classes": "claims of tenants; of other namespaces those for GPUs",
    "gpu-limits-equal-requests": _ON_A_POOL,
    "job-pools-run-jobs": "GPU pods of all namespaces on pools with `jobsOnly`",
    "no-mixed-gpu-resources": _ON_A_POOL,
    "node-pools-are-bounded": "NodePools of pools; all with `scope: cluster`",
    "one-slice-per-container": "pods of all namespaces that select a pool",
    "owned-labels-and-taints-stay": "nodes of pools, namespaces of tenants",
    "pools-are-not-bypassed": "pods of tenants, GPU pods of all namespaces",
    "queue-marks-are-the-queues": "what carries marks of the queue",
    "quotas-count-gpus": "quotas of tenants; all with `scope: cluster`",
    "quotas-stay-within-capacity": "quotas of tenants; all with `scope: cluster`",
    "tenant-bounds-stay": "what gpupool has made",
}
"""Where it does not follow from the policy's selector, conditions or variables."""
_BOUND = "pods of tenants and of gpupool, GPU pods of all namespaces; all with `scope: cluster`"


def table() -> str:
    objects = read_objects(sorted(SHIPPED.glob("*.yaml")))
    bindings = {body["spec"]["policyName"]: body for body in objects if body["kind"] == BINDING}
    return _HEAD + "".join(
        row(body, bindings[body["metadata"]["name"]]) for body in objects if body["kind"] == POLICY
    )


def row(policy: Any, binding: Any) -> str:
    name = policy["metadata"]["name"]
    said = [
        policy["metadata"]["annotations"][f"policies.gpupool.dev/{key}"] for key in ("title", "why", "fix")
    ]
    action = ", ".join(binding["spec"]["validationActions"]).lower()
    parameters = binding["spec"].get("paramRef", {}).get("name")
    cells = [f"`{name}`", *said, action, judged(policy), f"`{parameters}`" if parameters else ""]
    assert not any("|" in cell or "\n" in cell for cell in cells), (
        f"{name} has an annotation that breaks the table"
    )
    return f"| {' | '.join(cells)} |\n"


def judged(policy: Any) -> str:
    """Which objects of the cluster the policy judges. KeyError for one that has to be described."""
    spec = policy["spec"]
    selector = spec["matchConstraints"].get("namespaceSelector", {}).get("matchExpressions", [])
    conditions = {row["name"] for row in spec.get("matchConditions", ())}
    if {"key": "gpupool.dev/tenant", "operator": "Exists"} in selector or "of-a-tenant" in conditions:
        return "namespaces of tenants"
    if "of-the-launcher" in conditions:
        return "requests of the queue's launcher"
    if _GPU in conditions:
        rules = spec["matchConstraints"]["resourceRules"]
        return _ON_A_POOL if "pods" in rules[0]["resources"] else "GPU jobs of all namespaces"
    name = policy["metadata"]["name"]
    if name not in _JUDGED and any(row["name"] == "bound" for row in spec.get("variables", ())):
        return _BOUND
    return _JUDGED[name]


def test_the_table_is_that_of_the_policies() -> None:
    wanted = table()
    if os.environ.get("GPUPOOL_WRITE_GOLDEN"):
        TABLE.write_text(wanted, encoding="utf-8")
    assert TABLE.read_text(encoding="utf-8") == wanted


def test_every_policy_has_fixtures_and_a_file_of_its_name() -> None:
    for path in SHIPPED.glob("*.yaml"):
        names = {body["metadata"]["name"] for body in read_objects([path])}
        assert names == {path.stem}
        assert {file.stem for file in (SHIPPED / "fixtures" / path.stem).iterdir()} >= {"good", "bad"}


def test_what_fixtures_refer_to_is_the_same_for_all_policies() -> None:
    """A cluster has one object of a name: the fixtures of all policies are asked of one API server."""
    known: dict[tuple[str, str, str], tuple[str, Any]] = {}
    for path in sorted(SHIPPED.glob("fixtures/*/context.yaml")):
        for body in filter(None, yaml.safe_load_all(path.read_text(encoding="utf-8"))):
            key = (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"])
            policy, first = known.setdefault(key, (path.parent.name, body))
            assert body == first, f"{' '.join(key)} is another one in {path.parent.name} than in {policy}"


def test_classes_that_pods_of_fixtures_name_are_there() -> None:
    """The API server refuses a pod whose PriorityClass does not exist before it asks any policy."""
    missing_on_purpose = {"unknown", "not-given"}
    for suite in read_suites(SHIPPED)[0]:
        there = {row.body["metadata"]["name"] for row in suite.context if row.body["kind"] == "PriorityClass"}
        pods = [
            body
            for case in suite.cases
            for body in (case.document.body, case.old)
            if body and body["kind"] == "Pod"
        ]
        named = {body["spec"]["priorityClassName"] for body in pods if "priorityClassName" in body["spec"]}
        assert {name for name in named if not name.startswith("system-")} <= there | missing_on_purpose, (
            suite.name
        )
