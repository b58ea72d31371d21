"""Requests for subresources: the engine's words against the API server's.

Each request is denied by a policy that says all that it sees.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.cluster.policies.server import Server
from vapcheck import Kinds, from_bodies
from vapcheck.judging.judge import Judge
from vapcheck.judging.request import User
from vapcheck.policy.policy_set import read_policies

Object = dict[str, Any]
PLACE = "subresources-test"
ADMIN = User("admin", ("system:masters", "system:authenticated"))
RESOURCES = ["pods/exec", "pods/attach", "pods/eviction", "pods/ephemeralcontainers", "deployments/scale"]
SAYS = (
    "request.operation + ' ' + request.resource.group + '/' + request.resource.resource + '/' + "
    "request.subResource + ' ' + request.kind.group + '/' + request.kind.version + ' ' + request.kind.kind + "
    "' ' + request.requestKind.kind + ' ' + request.name + ' ' + object.kind + ' ' + object.apiVersion + "
    "(has(object.metadata) ? ' called ' + object.metadata.name + ' in ' + object.metadata.namespace : '') + "
    "(has(object.metadata) && has(object.metadata.uid) ? ' identified' : '') + "
    "(has(object.command) ? ' runs ' + object.command.join(' ') : '') + "
    "(has(object.stdin) && object.stdin ? ' with input' : '') + "
    "(object.kind == 'Scale' ? ' of ' + string(oldObject.spec.replicas) + ' to ' + "
    "string(object.spec.replicas) : '') + "
    "(object.kind == 'Pod' ? ' with ' + object.spec.ephemeralContainers[0].name : '')"
)
POLICY: Object = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "subresources"},
    "spec": {
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": PLACE}},
            "resourceRules": [
                {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": RESOURCES}
            ],
        },
        "validations": [{"expression": "false", "messageExpression": SAYS}],
    },
}
BINDING: Object = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "subresources"},
    "spec": {"policyName": "subresources", "validationActions": ["Deny"]},
}
META = {"name": "one", "namespace": PLACE}
CONTAINER = {"name": "work", "image": "work:1"}
POD: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": META, "spec": {"containers": [CONTAINER]}}
DEPLOYMENT: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": META,
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "one"}},
        "template": {"metadata": {"labels": {"app": "one"}}, "spec": {"containers": [CONTAINER]}},
    },
}
PODS, DEPLOYMENTS = (
    f"/api/v1/namespaces/{PLACE}/pods/one",
    f"/apis/apps/v1/namespaces/{PLACE}/deployments/one",
)
SCALE: Object = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": META, "spec": {"replicas": 5}}
EVICTION: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": META}
EPHEMERAL: Object = {
    **POD,
    "spec": {**POD["spec"], "ephemeralContainers": [{"name": "debug", "image": "d:1"}]},
}


def options(kind: str, **fields: Any) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": META, **fields}


@pytest.fixture(scope="module")
def server(compared: Path) -> Iterator[Server]:
    """One on which the policy is in force."""
    server = Server(compared)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": PLACE},
    }
    made = [namespace, account, POD, DEPLOYMENT, POLICY, BINDING]
    for body in made:
        answer = server.ask("CREATE", body, dry_run=False)
        assert answer.status < 300 or "already exists" in answer.message, answer.message
    deadline = time.monotonic() + 120
    while not server.send("POST", f"{PODS}/eviction", EVICTION).message and time.monotonic() < deadline:
        time.sleep(0.5)
    yield server
    for body in reversed(made):
        server.ask("DELETE", body, dry_run=False)


@pytest.mark.parametrize(
    ("asked", "given", "old", "method", "path", "query"),
    [
        (
            "pods/exec",
            options("PodExecOptions", command=["sh", "-c"], stdin=True, container="work"),
            None,
            "POST",
            f"{PODS}/exec",
            [("command", "sh"), ("command", "-c"), ("stdin", "true"), ("container", "work")],
        ),
        ("attach", POD, None, "POST", f"{PODS}/attach", []),
        ("eviction", POD, None, "POST", f"{PODS}/eviction", None),
        ("pods/eviction", EVICTION, None, "POST", f"{PODS}/eviction", None),
        ("pods/ephemeralcontainers", EPHEMERAL, POD, "PUT", f"{PODS}/ephemeralcontainers", None),
        ("deployments/scale", SCALE, DEPLOYMENT, "PUT", f"{DEPLOYMENTS}/scale", None),
    ],
    ids=["exec", "attach", "eviction of a pod", "eviction", "ephemeralcontainers", "scale"],
)
def test_the_engine_says_what_the_server_says(
    server: Server, asked: str, given: Object, old: Object | None, method: str, path: str, query: Any
) -> None:
    judge = Judge(read_policies(from_bodies([POLICY, BINDING], "p")), [], Kinds.builtin())
    (finding,) = judge.judge(from_bodies([given], "o")[0], old=old, user=ADMIN, subresource=asked)
    if query is None:
        body = {"eviction": EVICTION, "scale": SCALE}.get(path.rpartition("/")[2], given)
        answer = server.send(method, path, body)
    else:  # no dry run of a CONNECT
        answer = server.send(method, f"{path}?{urlencode(query)}", None, dry_run=False)
    assert answer.message.partition("denied request: ")[2] == finding.message, answer
