"""What the real API server makes of CEL expressions, hundreds at a time.

Each expression becomes a variable of a ValidatingAdmissionPolicy. Refusals to compile are read from the
dry-run creation of policies. Values and errors come back as admission warnings: every validation ends in an
error, either the variable's own or one that has the value in its text. Policies select objects by a label, so
that one request asks for one policy.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.cluster.policies.cel_expressions import SPECIMEN, Expression
from tests.cluster.policies.server import Server

Object = dict[str, Any]
GROUP = "differential.gpupool.dev"
_PREFIX = "cel-differential"
_LABEL = f"{GROUP}/batch"
_PER_POLICY = 10
_PER_COMPILATION = 60
_PER_POLICY_WHEN_LONG = 2
_CUT = 256
"""Runes that are left of a warning when all of an answer exceed 4096 (apiserver 0.36 filters/warning.go)."""
_WAIT_SECONDS = 180.0
_POLL_SECONDS = 0.3
_WARNING = re.compile(r"variables\.e(\d+)\]\) \+ '>'\]' resulted in error: (.*)$", re.DOTALL)
_CAUSE = re.compile(r"spec\.variables\[(\d+)\]\.expression")


@dataclass(frozen=True)
class Outcome:
    """What became of an expression."""

    kind: Literal["refused", "value", "error"]
    text: str
    """The value as text, or the error's message; for a refusal the compiler's words."""


def crd() -> Object:
    """A kind whose objects hold anything, so that expressions see values of unknown type."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    names = {"plural": "specimens", "singular": "specimen", "kind": "Specimen", "listKind": "SpecimenList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"specimens.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def specimen(batch: int) -> Object:
    """The object that the policy of a batch is asked about."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Specimen",
        "metadata": {"name": "specimen", "namespace": "default", "labels": {_LABEL: str(batch)}},
        "spec": dict(SPECIMEN),
    }


def policy(batch: int, numbered: Mapping[int, Expression]) -> Object:
    """A policy with every expression as a variable, and a validation that shows it."""
    rule = {
        "apiGroups": [GROUP],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["specimens"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"{_PREFIX}-{batch}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [rule],
                "objectSelector": {"matchLabels": {_LABEL: str(batch)}},
            },
            "variables": [{"name": f"e{n}", "expression": one.text} for n, one in numbered.items()],
            "validations": [
                # A key that isn't there: the error says it. A message expression would see no authorizer.
                {"expression": f"{{'': true}}['e{n}=<' + {shown(n)} + '>']"}
                for n in numbered
            ],
        },
    }


def shown(number: int) -> str:
    """The expression that turns a variable into text."""
    return f"'%s'.format([variables.e{number}])"


def _binding(batch: int) -> Object:
    name = f"{_PREFIX}-{batch}"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Warn"]},
    }


def _batches(items: Sequence[tuple[int, Expression]], size: int) -> Iterator[dict[int, Expression]]:
    for start in range(0, len(items), size):
        yield dict(items[start : start + size])


class CelServer:
    """Asks one server; `remove` takes away what it made there."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._made: list[Object] = []
        self._batches = 0

    def outcomes(self, expressions: Sequence[Expression]) -> dict[str, Outcome]:
        """The outcome of each expression, by name."""
        self._create(crd())
        self._until_served()
        refusals = self._refusals(expressions)
        found = {n: Outcome("refused", text) for n, text in refusals.items()}
        found |= self._evaluated(
            [(n, one) for n, one in enumerate(expressions) if n not in found], _PER_POLICY
        )
        long = [(n, one) for n, one in enumerate(expressions) if n not in found]
        found |= self._evaluated(long, _PER_POLICY_WHEN_LONG)
        return {one.name: found[n] for n, one in enumerate(expressions)}

    def _evaluated(self, numbered: Sequence[tuple[int, Expression]], size: int) -> dict[int, Outcome]:
        """Outcomes of expressions that compile, but for those whose texts were cut."""
        batches = list(enumerate(_batches(numbered, size), start=self._batches))
        self._batches += len(batches)
        for batch, members in batches:
            self._create(policy(batch, members))
            self._create(_binding(batch))
        found: dict[int, Outcome] = {}
        for batch, members in batches:
            found |= self._answers(batch, members)
        return found

    def remove(self) -> None:
        """Delete the policies and the kind, and wait until all is gone."""
        for body in reversed(self._made):
            self._server.ask("DELETE", body, dry_run=False)
        kind, deadline = crd(), time.monotonic() + _WAIT_SECONDS
        while self._server.api.get(kind["apiVersion"], kind["kind"], kind["metadata"]["name"]) is not None:
            assert time.monotonic() < deadline, "the kind does not go"
            time.sleep(_POLL_SECONDS)
        self._made.clear()

    def _create(self, body: Object) -> None:
        """Create an object; a policy that an interrupted run left is replaced."""
        answer = self._server.ask("CREATE", body, dry_run=False)
        if answer.status == 409 and body["kind"] != "CustomResourceDefinition":
            self._server.ask("DELETE", body, dry_run=False)
            answer = self._server.ask("CREATE", body, dry_run=False)
        assert answer.status < 300 or answer.status == 409, answer.message
        self._made.append(body)

    def _until_served(self) -> None:
        deadline = time.monotonic() + _WAIT_SECONDS
        while self._server.api.resource(f"{GROUP}/v1", "Specimen") is None:
            assert time.monotonic() < deadline, "the server does not serve the new kind"
            time.sleep(_POLL_SECONDS)

    def _refusals(self, expressions: Sequence[Expression]) -> dict[int, str]:
        """The compiler's words for each expression that the server refuses."""
        refusals: dict[int, str] = {}
        for members in _batches(list(enumerate(expressions)), _PER_COMPILATION):
            body = policy(0, members)
            body["spec"]["validations"] = [{"expression": "true"}]
            body["metadata"]["name"] = f"{_PREFIX}-dry"
            answer = self._server.ask("CREATE", body)
            if answer.status < 300:
                continue
            numbers = list(members)
            for cause in answer.body["details"]["causes"]:
                match = _CAUSE.match(cause["field"])
                assert match is not None, cause
                refusals[numbers[int(match.group(1))]] = cause["message"]
        return refusals

    def _answers(self, batch: int, members: Mapping[int, Expression]) -> dict[int, Outcome]:
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            answer = self._server.ask("CREATE", specimen(batch))
            whole = len(members) <= _PER_POLICY_WHEN_LONG
            found = dict(filter(None, (_read(warning, whole) for warning in answer.warnings)))
            if len(found) == len(members):
                return {n: outcome for n, outcome in found.items() if outcome is not None}
            missing = {n: one.text for n, one in members.items() if n not in found}
            assert time.monotonic() < deadline, (batch, missing, answer.warnings, answer.message)
            time.sleep(_POLL_SECONDS)


def _read(warning: str, whole: bool) -> tuple[int, Outcome | None] | None:
    """Number and outcome out of one warning; no outcome where it may be cut, None for others."""
    text = warning.encode("latin-1").decode("utf-8")
    match = _WARNING.search(text)
    if match is None:
        return None
    number, said = int(match.group(1)), match.group(2)
    if len(text) == _CUT and not whole:
        return number, None
    value = said.removeprefix(f"no such key: e{number}=<")
    if value != said:
        return number, Outcome("value", value.removesuffix(">"))
    return number, Outcome("error", said.removeprefix(variable_failed(number)))


def variable_failed(number: int) -> str:
    """What the server puts before the error of a variable."""
    return f'composited variable "e{number}" fails to evaluate: '
