"""The shipped policies on a real API server: every good fixture is taken, every bad one refused or warned of.

All policies are in force at once, each on the fixtures of its own folder, and every request is a dry run.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.policy_files import BINDING, SHIPPED, read_objects
from gpupool.live.cluster.kube_api import MERGE, STRATEGIC, ApiError, KubeApi
from tests.cluster.policies.server import Server
from vapcheck import Kinds
from vapcheck.fixtures.suites import Case, kinds_of, policy_set, read_suites
from vapcheck.judging.judge import Judge

Object = dict[str, Any]
_OFF = ("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2")
"""Versions that the server has, and serves only where it is configured to."""
SUITES = {
    suite.name: dataclasses.replace(
        suite, cases=tuple(case for case in suite.cases if case.document.body["apiVersion"] not in _OFF)
    )
    for suite in read_suites(SHIPPED)[0]
}
CASES = [(suite.name, case) for suite in SUITES.values() for case in suite.cases]
REFUSED_ANYWAY = frozenset({"gpu-limits-equal-requests"})
"""Policies about what the API server's own validation refuses first; they are there for templates of pods."""
REFUSED_BEFORE = {
    "administrative": "admin access to devices requires the",
    "value-not-known": "no PriorityClass with name unknown",
    "value-not-known-none-allowed": "no PriorityClass with name unknown",
}
"""Bad fixtures, by name, that the server's own admission or validation refuses before policies are asked; its
words."""
_LABEL = "fixture"
_ENFORCED_SECONDS = 180.0
_ACCOUNT_SECONDS = 180.0


class Asker(Server):
    """Sends the requests of fixtures as dry runs."""

    def verdict(self, case: Case, policy: str) -> str:
        """What the server says against the request: the refusal, a warning of a policy, or nothing."""
        body = labelled(case.document.body, policy)
        where = self.api.require(body["apiVersion"], body["kind"])
        namespace = body["metadata"].get("namespace", "default") if where.namespaced else None
        name, method, content = body["metadata"]["name"], "POST", "application/json"
        path, sent = where.collection(namespace), body
        if case.operation != "CREATE":
            path = where.path(namespace, name)
            method, sent = "DELETE", {"dryRun": ["All"], **case.options}  # a body goes before the query
        if case.operation == "UPDATE":
            method, sent = "PATCH", difference(labelled(case.old or {}, policy), body)
            content = STRATEGIC if body["kind"] == "Pod" else MERGE
            if "ephemeralContainers" in body.get("spec", {}):
                path += "/ephemeralcontainers"
        return self._send(method, path, sent, content, case)

    def _send(self, method: str, path: str, body: Object, content: str, case: Case) -> str:
        user = group = None
        if case.user.name != "gpupool-check":
            user = case.user.name
            # RBAC must allow the request, so that admission sees it.
            group = next((name for name in case.user.groups if not name.endswith(":authenticated")), "staff")
        answer = self.send(method, path, body, content, user=user, group=group)
        if answer.status >= 400:
            return answer.message or str(answer.status)
        return "; ".join(text for text in answer.warnings if "ValidatingAdmissionPolicy" in text)


def labelled(body: Object, policy: str) -> Object:
    """The object, known to the binding of its policy alone."""
    made = copy.deepcopy(body)
    made["metadata"]["labels"] = {**(made["metadata"].get("labels") or {}), _LABEL: policy}
    return made


def difference(old: Object, new: Object) -> Object:
    """What turns `old` into `new`, as a merge patch; lists as a whole."""
    changes = {
        key: difference(old[key], value)
        if isinstance(value, dict) and isinstance(old.get(key), dict)
        else value
        for key, value in new.items()
        if old.get(key) != value
    }
    return changes | {key: None for key in old if key not in new}


def bound(body: Object) -> Object:
    """A shipped object; a binding acts on the fixtures of its policy only."""
    made = copy.deepcopy(body)
    if made["kind"] == BINDING:
        matched = made["spec"].setdefault("matchResources", {})
        matched["objectSelector"] = {"matchLabels": {_LABEL: made["spec"]["policyName"]}}
    return made


def existing(case: Case, policy: str) -> Object | None:
    """The object that must be there before the request."""
    if case.operation == "CREATE":
        return None
    made = labelled(case.old or case.document.body, policy)
    if made["kind"] == "Pod":
        # What the server would add to the pod can't be in the fixture's new version of it.
        made["spec"]["automountServiceAccountToken"] = False
    return made


@pytest.fixture(scope="module")
def asker(compared: Path) -> Iterator[Asker]:
    """A server with the policies in force and everything that the fixtures refer to."""
    asker = Asker(compared)
    made: list[Object] = []

    def create(body: Object) -> None:
        try:
            asker.api.create(body)
        except ApiError as error:
            if error.status != 409:
                raise
        made.append(body)

    try:
        for suite in SUITES.values():
            for document in suite.context:
                if (document.body["kind"], document.body["metadata"]["name"]) != ("Namespace", "kube-system"):
                    create(document.body)
        _wait_for_accounts(asker.api, [body for body in made if body["kind"] == "Namespace"])
        everybody = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "fixtures"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fixtures"},
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
            ],
        }
        rules = [
            {
                "apiGroups": ["", "apps", "batch", "networking.k8s.io", "karpenter.sh", "resource.k8s.io"],
                "resources": ["*"],
                "verbs": ["*"],
            }
        ]
        create({**everybody, "kind": "ClusterRole", "rules": rules, "roleRef": None, "subjects": None})
        create(everybody)
        for policy, case in CASES:
            old = existing(case, policy)
            if old is not None:
                create(old)
        for body in read_objects(sorted(SHIPPED.glob("*.yaml"))):
            create(bound(dict(body)))
        yield asker
    finally:
        for body in reversed(made):
            where = (body["metadata"]["name"], body["metadata"].get("namespace"))
            if body["metadata"].get("finalizers"):  # which only what made them would take off
                released = {"metadata": {"finalizers": None}}
                asker.api.patch(body["apiVersion"], body["kind"], where[0], released, where[1])
            asker.api.delete(body["apiVersion"], body["kind"], *where, 0)
        asker.api.close()


def _wait_for_accounts(api: KubeApi, namespaces: list[Object]) -> None:
    """No pod is taken in a namespace before its default account is there."""
    deadline = time.monotonic() + _ACCOUNT_SECONDS
    for namespace in namespaces:
        while api.get("v1", "ServiceAccount", "default", namespace["metadata"]["name"]) is None:
            assert time.monotonic() < deadline, f"no account in {namespace['metadata']['name']}"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def enforced(asker: Asker) -> dict[str, str]:
    """Verdict by place of every bad fixture, asked until the policies are in force (some ten seconds).

    At first the server may say something else: that it has not read a policy's parameter yet.
    """
    deadline = time.monotonic() + _ENFORCED_SECONDS
    found: dict[str, str] = {}
    for policy, case in CASES:
        while not case.good:
            found[case.place] = asker.verdict(case, policy)
            if as_expected(case, policy, found[case.place]) or time.monotonic() > deadline:
                break
            time.sleep(0.2)
    return found


@pytest.mark.parametrize("name", SUITES)
def test_bad_fixtures_are_refused(name: str, enforced: dict[str, str]) -> None:
    wrong = [
        f"{case.place} {case.name}: {enforced[case.place] or 'passes'}; expected {case.expect!r}"
        for case in SUITES[name].cases
        if not case.good and not as_expected(case, name, enforced[case.place])
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", SUITES)
def test_the_engine_says_the_same_words(name: str, enforced: dict[str, str]) -> None:
    """The server returns the first denial, of parameters in its own order, and all warnings."""
    if name in REFUSED_ANYWAY:
        pytest.skip("the server's own validation comes first")
    suite = SUITES[name]
    kinds = kinds_of(suite, Kinds.builtin())
    judge = Judge(policy_set(suite, suite.policy, kinds), suite.context, kinds)
    wrong = []
    for case in suite.cases:
        if case.good or case.document.body["metadata"]["name"] in REFUSED_BEFORE:
            continue
        found = judge.judge(
            case.document, operation=case.operation, old=case.old, user=case.user, options=case.options
        )
        reported, ours = enforced[case.place], [finding for finding in found if finding.rule == name]
        denials = [finding.message for finding in ours if finding.level == "deny"]
        warnings = [finding.message for finding in ours if finding.level == "warn"]
        denied = sorted_words(reported.rpartition("denied request: ")[2])
        if denials and any(denied == sorted_words(message) for message in denials):
            continue
        if warnings and not denials and all(message in reported for message in warnings):
            continue
        wrong.append(f"{case.place} {case.name}: {denials or warnings}; the server says {reported!r}")
    assert not wrong, "\n".join(wrong)


def sorted_words(message: str) -> list[str]:
    """Of a denial. The fields of a map that it lists come in another order each time the server is asked."""
    return sorted(re.split("[,;]? ", message))


def as_expected(case: Case, policy: str, verdict: str) -> bool:
    if policy in REFUSED_ANYWAY:
        return "is invalid: spec." in verdict
    words = REFUSED_BEFORE.get(case.document.body["metadata"]["name"])
    if words is not None:
        return words in verdict
    return f"ValidatingAdmissionPolicy '{policy}'" in verdict and case.expect in verdict


@pytest.mark.parametrize("name", SUITES)
def test_good_fixtures_are_taken(name: str, asker: Asker, enforced: dict[str, str]) -> None:
    wrong = [
        f"{case.place} {case.name}: {verdict}"
        for case in SUITES[name].cases
        if case.good and "ValidatingAdmissionPolicy" in (verdict := asker.verdict(case, name))
    ]
    assert not wrong, "\n".join(wrong)
