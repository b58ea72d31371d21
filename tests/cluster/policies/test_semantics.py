"""The engine's verdicts against the API server's, rule by rule of what a policy and a binding can say.

Every case of `semantics.yaml` is created on the real server, every request of it sent as a dry run, and the
same documents given to the engine: same verdict, same words, same warnings.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.local import crds
from tests.cluster.policies.server import Answer, Server
from vapcheck import Document, Kinds, from_bodies
from vapcheck.judging.judge import Judge
from vapcheck.judging.request import User
from vapcheck.policy.model import BINDING
from vapcheck.policy.policy_set import read_policies

Object = dict[str, Any]
CASES: list[Object] = yaml.safe_load((Path(__file__).parent / "semantics.yaml").read_text(encoding="utf-8"))
_IN_FORCE_SECONDS = 180.0
ADMIN = User("admin", ("system:masters", "system:authenticated"))


def documents(case: Object) -> list[Object]:
    """The case's objects; bindings act on objects of the case only."""
    found = [dict(body) for body in case["documents"]]
    for body in found:
        if body["kind"] == BINDING:
            resources = body["spec"].setdefault("matchResources", {})
            selector = resources.setdefault("objectSelector", {})
            selector["matchLabels"] = {"case": case["case"]} | selector.get("matchLabels", {})
    return found


def labelled(case: Object, body: Object) -> Object:
    metadata = body.get("metadata", {})
    labels = {"case": case["case"]} | metadata.get("labels", {})
    return body | {"metadata": metadata | {"labels": labels}}


def requests() -> list[Any]:
    return [
        pytest.param(case, number, id=f"{case['case']}-{number}")
        for case in CASES
        for number in range(len(case["requests"]))
    ]


@pytest.fixture(scope="module")
def server(compared: Path) -> Iterator[Server]:
    """A server on which all cases are in force."""
    server = Server(compared)
    made: list[Object] = []

    def create(body: Object) -> None:
        if body["kind"] == "CustomResourceDefinition":
            crds.serve(server.api, [body])
            made.append(body)
            return
        answer = server.ask("CREATE", body, dry_run=False)
        assert answer.status < 300 or "already exists" in answer.message, (answer.message, body)
        made.append(body)

    later: list[Object] = []
    for case in CASES:
        for body in documents(case):
            if body["kind"].startswith("ValidatingAdmission"):
                later.append(body)
            else:
                create(body)
        for request in case["requests"]:
            if "old" in request:
                create(labelled(case, request["old"]))
    for body in later:
        create(body)
    _wait_until_in_force(server)
    yield server
    for body in reversed(made):
        server.ask("DELETE", body, dry_run=False)


def _wait_until_in_force(server: Server) -> None:
    """The server compiles in the background, some ten seconds: ask until it says the words that we expect.

    Where it never does, the test of that request tells.
    """
    deadline = time.monotonic() + _IN_FORCE_SECONDS
    for case in CASES:
        for request in case["requests"]:
            while not _agreed(server, case, request) and time.monotonic() < deadline:
                time.sleep(0.5)


def _agreed(server: Server, case: Object, request: Object) -> bool:
    operation, body = request.get("operation", "CREATE"), labelled(case, request["object"])
    try:
        return engine_says(case, request, operation, body) == server_says(server, request, operation, body)
    except AssertionError:  # the server says something that is no verdict of a policy
        return False


@pytest.mark.parametrize(("case", "number"), requests())
def test_engine_says_what_the_server_says(server: Server, case: Object, number: int) -> None:
    request = case["requests"][number]
    operation = request.get("operation", "CREATE")
    body = labelled(case, request["object"])
    ours = engine_says(case, request, operation, body)
    assert ours == server_says(server, request, operation, body)
    if "expect" in request:
        assert request["expect"] in (ours["denied"] or "") + "".join(ours["warned"]), ours


def server_says(server: Server, request: Object, operation: str, body: Object) -> Object:
    groups = tuple(request.get("groups", ()))
    answer: Answer = server.ask(operation, body, user=request.get("user"), groups=groups)
    denied: str | None = None
    if answer.status >= 400:
        assert "denied request: " in answer.message, answer
        denied = answer.message.partition("ValidatingAdmissionPolicy ")[2]
    warned = sorted(text for text in answer.warnings if "ValidatingAdmissionPolicy" in text)
    return {"denied": denied, "warned": warned, "code": answer.status if denied else 0}


def with_binding(name: str | None) -> str:
    return f" with binding '{name}'" if name else ""


def engine_says(case: Object, request: Object, operation: str, body: Object) -> Object:
    given = from_bodies(documents(case), case["case"])
    kinds = Kinds.builtin().with_crds(given)
    found = read_policies(given)
    assert not [finding for finding in found.findings if finding.level == "deny"], found.findings
    user = (
        User(request["user"], (*request.get("groups", ()), "system:authenticated"))
        if "user" in request
        else ADMIN
    )
    old = labelled(case, request["old"]) if "old" in request else None
    document: Document = from_bodies([body], "request")[0]
    findings = Judge(found, given, kinds).judge(document, operation=operation, old=old, user=user)
    denials = [
        (
            f"'{finding.rule}'{with_binding(finding.binding)} denied request: {finding.message}",
            finding.reason,
        )
        for finding in findings
        if finding.level == "deny"
    ]
    codes = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
    return {
        "denied": denials[0][0] if denials else None,
        "warned": sorted(
            f"Validation failed for ValidatingAdmissionPolicy '{finding.rule}'"
            f"{with_binding(finding.binding)}: {finding.message}"
            for finding in findings
            if finding.level == "warn"
        ),
        "code": codes.get(denials[0][1], 422) if denials else 0,
    }
