"""With the launcher's account nothing can be created but what `job_manifest` makes.

Each field of Kubernetes that it does not set is refused, and so is another value of those that it does, but
for a few that are listed here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.queue.kubernetes.job_manifest import manifest, service
from tests.admission import JOB_CONTROLLER, judge_of, said
from tests.queue.kubernetes.test_policies_take_its_jobs import DATABASE, LAUNCHER, job, pod
from vapcheck import Kinds
from vapcheck.judging.judge import Judge
from vapcheck.server.schema import Schema

Object = dict[str, Any]
Path = tuple[str | int, ...]
REQUEST = {
    "container_image": "registry.example/train:1",
    "container_command": ["train"],
    "env": {"EPOCHS": "3"},
    "env_from_secrets": ["keys"],
    "image_pull_secrets": ["pull"],
    "volumes": [{"claim": "data", "path": "/data", "read_only": True}],
}
FILLED_IN = {
    ("spec", "template", "metadata", "creationTimestamp"),
    ("spec", "selector"),
    ("spec", "completionMode"),
    *(
        ("spec", "template", "spec", "containers", 0, field)
        for field in ("imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy")
    ),
    *(("spec", field) for field in ("clusterIPs", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy")),
    ("spec", "sessionAffinityConfig"),
}
"""What the API server sets itself where nothing is said, or drops (the last)."""
WISH = "preferredDuringSchedulingIgnoredDuringExecution"
CHOSEN = {
    "activeDeadlineSeconds", "ttlSecondsAfterFinished", "completions", "terminationGracePeriodSeconds",
    "image", "command", "env", "volumes", "volumeMounts", "requests", "limits", WISH,
    "annotations", "apiVersion", "kind", "karpenter.sh/capacity-type", "gpupool.dev/shares-gpu", "uid",
}  # fmt: skip
"""Where a compromised account may write other values, as far as other policies and quotas allow: what
runs, for how long, how large it is, and which claims it mounts where the file does not list them."""


@cache
def environment() -> tuple[Plan, Judge]:
    plan = read_plan("local")
    return plan, judge_of(plan)


@cache
def made() -> tuple[Object, Object]:
    """A Job with every part that any has, and its Service."""
    plan, _ = environment()
    tenant = next(one for one in plan.tenants if "training" in one.grants)
    pool = plan.pool("training")
    ((resource, count),) = pool.slices_per_node.items()
    several: Object = {"gpu_count": 2 * count, "placement": ((0, count), (1, count)), "request": REQUEST}
    found = manifest(
        job(plan, tenant, pool, resource, **several), plan, tenant, ["node-a"], database=DATABASE
    )
    belonging = service({**found, "metadata": {**found["metadata"], "uid": "1"}})
    assert belonging is not None
    return found, belonging


def verdict(body: Object) -> list[str]:
    """Denials of the object and, of a Job, of its pods."""
    _, judge = environment()
    pods = said(judge, pod(body), JOB_CONTROLLER) if body["kind"] == "Job" else []
    return [text for text in (*said(judge, body, LAUNCHER), *pods) if text.startswith("deny")]


def nodes(value: Any, schema: Schema | None, path: Path = ()) -> Iterator[tuple[Path, Any, Schema | None]]:
    yield path, value, schema
    if isinstance(value, dict):
        for key, item in value.items():
            below = schema and (schema.properties.get(key) or schema.values)
            yield from nodes(item, below, (*path, key))
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from nodes(item, schema and schema.items, (*path, number))


def sample(schema: Schema, depth: int = 0) -> Any:
    """A value of the type that is not empty."""
    if schema.type == "array" and schema.items:
        return [sample(schema.items, depth + 1)]
    if schema.type == "object" or schema.properties:
        if depth < 4 and schema.properties:
            return {key: sample(one, depth + 1) for key, one in schema.properties.items()}
        return {"key": sample(schema.values, depth + 1)} if schema.values else {}
    if schema.format in ("date-time", "micro-time"):
        return "2026-11-25T00:00:00Z"
    return {"boolean": True, "integer": 7, "number": 7}.get(schema.type, "1" if schema.quantity else "eA==")


def changed(body: Object, path: Path, value: Any) -> Object:
    found = copy.deepcopy(body)
    at: Any = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return found


def other(value: Any) -> Any:
    return {bool: lambda v: not v, int: lambda v: v + 1}.get(type(value), lambda v: f"{v}-other")(value)


def listed(kind: int) -> list[tuple[Path, Any, Schema | None]]:
    body = made()[kind]
    schema = Kinds.builtin().schema(body["apiVersion"], body["kind"])
    return list(nodes(body, schema))


UNMADE = [
    (kind, (*path, name), below)
    for kind in (0, 1)
    for path, value, schema in listed(kind)
    if isinstance(value, dict) and schema and path and path[0] == "spec" and WISH not in path
    for name, below in schema.properties.items()
    if name not in value and (*path, name) not in FILLED_IN
]
LEAVES = [
    (kind, path, value)
    for kind in (0, 1)
    for path, value, _ in listed(kind)
    if not isinstance(value, dict | list) and not CHOSEN & set(path)
    if kind == 0 or path != ("metadata", "namespace")  # of a Service: RBAC's
]


def name_of(value: Any) -> str:
    return ".".join(map(str, value)) if isinstance(value, tuple) else ""


def test_what_is_made_is_taken() -> None:
    assert [verdict(body) for body in made()] == [[], []]
    assert len(UNMADE) > 100
    assert len(LEAVES) > 40


@pytest.mark.parametrize(("kind", "path", "schema"), UNMADE, ids=name_of)
def test_a_field_that_is_not_made_is_refused(kind: int, path: Path, schema: Schema) -> None:
    denials = verdict(changed(made()[kind], path, sample(schema)))
    assert any("queue-" in text for text in denials), denials


@pytest.mark.parametrize(("kind", "path", "value"), LEAVES, ids=name_of)
def test_another_value_is_refused(kind: int, path: Path, value: Any) -> None:
    assert verdict(changed(made()[kind], path, other(value)))
