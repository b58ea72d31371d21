"""Keeps the contents of Secrets out of what a check says.

Policies judge Secrets as they are; only the report is changed. What an expression makes of a Secret can't be
recognised (its upper case, its length), so whatever was worked out from its contents is withheld. Elsewhere
the values themselves are masked, unless they also occur in objects that are not secret.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vapcheck.judging.decision_findings import IGNORED
from vapcheck.judging.secret_reading import LAST_APPLIED, SecretReading
from vapcheck.manifests.documents import Document
from vapcheck.manifests.secret_kinds import SECRET_KINDS, is_secret
from vapcheck.outcome import PolicyFinding, Report
from vapcheck.policy.model import POLICY, Policy
from vapcheck.policy.reader import read_policy

HIDDEN = "***"
WITHHELD = "message withheld: its messageExpression reads the contents of a Secret"
UNKNOWN = "message withheld: the policy is not available, and may show the contents of the Secret"
_TELLING = 8
"""Characters from which on a Secret's value is masked. Shorter ones are also ordinary words and numbers."""
_OPEN_FIELDS = ("apiVersion", "kind", "metadata", "type")


def without_secrets(report: Report, documents: Iterable[Document]) -> Report:
    """`report` without the contents of the Secrets among `documents`, which should hold the policies too: the
    message of one that is not among them is withheld where it is about a Secret.

    In a finding about a Secret, or by a policy that has one for its parameter, what reads the contents is
    replaced by `***`, and a message by a note. Everywhere, values of Secrets are masked that have 8 or more
    characters, not all of them letters, and that stand in no other object.
    """
    given = list(documents)
    secrets = [document.body for document in given if is_secret(document.body)]
    if not secrets:
        return report
    redaction = _Redaction(given, secrets, report.findings)
    return dataclasses.replace(report, findings=tuple(map(redaction.of, report.findings)))


class _Redaction:
    """What has to be known to change the findings of one report."""

    def __init__(
        self, given: list[Document], secrets: list[dict[str, Any]], findings: Iterable[PolicyFinding]
    ) -> None:
        self._mask = _any_of(_masked_values(given, secrets, findings))
        self._annotations = any(LAST_APPLIED in set(_texts(body.get("metadata"))) for body in secrets)
        self._policies: dict[str, list[Policy]] = {}
        for document in given:
            if document.body.get("kind") == POLICY:
                policy, _ = read_policy(document)
                self._policies.setdefault(policy.name, []).append(policy)
        self._readings: dict[tuple[str, bool], list[tuple[Policy, SecretReading]]] = {}

    def of(self, finding: PolicyFinding) -> PolicyFinding:
        """One finding as it may be shown."""
        secret = finding.object is not None and finding.object.kind in SECRET_KINDS
        if finding.origin == "policy":
            known = self._known(finding.rule, secret)
            if not known and secret:
                return dataclasses.replace(
                    finding, message=UNKNOWN, values=dict.fromkeys(finding.values, HIDDEN)
                )
            concerned = [(policy, reading) for policy, reading in known if reading.concerned]
            if concerned:
                return self._of_policy(finding, concerned)
        values = {name: self._masked(value) for name, value in finding.values.items()}
        return dataclasses.replace(finding, message=self._masked(finding.message), values=values)

    def _known(self, rule: str, secret: bool) -> list[tuple[Policy, SecretReading]]:
        """The policies of that name, of which there may be several."""
        key = rule, secret
        if key not in self._readings:
            self._readings[key] = [
                (policy, SecretReading(policy, of_secret=secret, annotations=self._annotations))
                for policy in self._policies.get(rule, ())
            ]
        return self._readings[key]

    def _of_policy(
        self, finding: PolicyFinding, known: Sequence[tuple[Policy, SecretReading]]
    ) -> PolicyFinding:
        values = {
            name: HIDDEN if any(reading.part_reads(name) for _, reading in known) else self._masked(value)
            for name, value in finding.values.items()
        }
        worded = self._of_violation if finding.reason else self._of_error  # only violations have a reason
        message = worded(finding, known)
        return dataclasses.replace(finding, message=message, values=values)

    def _of_violation(self, finding: PolicyFinding, known: Sequence[tuple[Policy, SecretReading]]) -> str:
        """Static messages stay; one that was worked out from the contents goes."""
        rows = [
            (row, reading)
            for policy, reading in known
            for row in policy.validations
            if row.expression.text == finding.expression
        ]
        static = {row.message for row, _ in rows} | {f"failed expression: {finding.expression.strip()}"}
        if finding.message in static:
            return finding.message
        worded = [(row, reading) for row, reading in rows if row.message_expression is not None]
        if worded and not any(
            row.message_expression and reading.reads(row.message_expression.text) for row, reading in worded
        ):
            return str(self._masked(finding.message))
        instead = next((row.message for row, _ in worded if row.message), "")
        return f"{instead} ({WITHHELD})" if instead else WITHHELD

    def _of_error(self, finding: PolicyFinding, known: Sequence[tuple[Policy, SecretReading]]) -> str:
        """An error shows the value that it is about."""
        if not finding.shows_values:
            return str(self._masked(finding.message))
        for policy, reading in known:
            conditions = [row.text for row in policy.conditions]
            texts = conditions if finding.expression in conditions else [finding.expression]
            if any(map(reading.reads, texts)):
                instead = "error withheld, because it reads the contents of a Secret"
                ignored = "" if policy.fails_closed else IGNORED
                return f"expression '{finding.expression}' failed: {instead}{ignored}"
        return str(self._masked(finding.message))

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._mask.sub(HIDDEN, value)
        if isinstance(value, Mapping):
            return {self._masked(key): self._masked(inner) for key, inner in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return [self._masked(inner) for inner in value]
        return value


def _masked_values(
    given: Iterable[Document], secrets: Iterable[Mapping[str, Any]], findings: Iterable[PolicyFinding]
) -> list[str]:
    """The values of Secrets that the findings show and that occur in no other object."""
    shown = "\n".join(text for finding in findings for text in (finding.message, *_texts(finding.values)))
    revealing = {
        text
        for body in secrets
        for text in _contents(body)
        if len(text) >= _TELLING and not text.isalpha() and text in shown
    }
    if not revealing:
        return []
    public = "\n".join(
        text for document in given if not is_secret(document.body) for text in _texts(document.body)
    )
    return [text for text in revealing if text not in public]


def _contents(body: Mapping[str, Any]) -> Iterator[str]:
    """Every value of a Secret, as it is written, decoded and encoded; longer ones line by line too. One that
    is malformed may have its values anywhere."""
    for text in _texts([value for key, value in body.items() if key not in _OPEN_FIELDS]):
        spellings = {text, base64.b64encode(text.encode("utf-8", "replace")).decode()}
        # What the server will refuse is hidden as the text that it is.
        with contextlib.suppress(binascii.Error, ValueError):
            spellings.add(base64.b64decode(text, validate=True).decode())
        for spelling in spellings:
            yield from (part for part in {spelling.strip(), *map(str.strip, spelling.splitlines())} if part)


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, numbers and keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for inner in value:
            yield from _texts(inner)
    elif value is not None:
        yield str(value)


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Matches any of `texts`, the longest first; nothing where there is none."""
    return re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or r"(?!)")
