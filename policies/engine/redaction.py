"""Keeps the contents of Secrets out of what a check says.

Policies judge Secrets as they are; only the report is changed. It knows the values of the Secrets that were
judged, as text and as base64; what an expression makes of them (their upper case, say) it can't know, so of a
Secret itself no texts are shown at all but the message.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from policies.engine.documents import Document
from policies.engine.outcome import PolicyFinding, Report

HIDDEN = "***"
_TELLING = 6
"""Characters from which on a Secret's value is hidden in findings about other objects too (a policy may take
a Secret as its parameter). Shorter ones are also ordinary words and numbers."""


def without_secrets(report: Report, documents: Iterable[Document]) -> Report:
    """`report` with the contents of the Secrets among `documents` replaced by `***`."""
    contents = {
        text for document in documents if _is_secret(document.body) for text in _contents(document.body)
    }
    if not contents:
        return report
    everywhere = _any_of(text for text in contents if len(text) >= _TELLING)
    in_secrets = _any_of(contents)
    findings = tuple(
        _of_secret(finding, in_secrets)
        if finding.object is not None and finding.object.kind == "Secret"
        else _of_other(finding, everywhere)
        for finding in report.findings
    )
    return dataclasses.replace(report, findings=findings)


def _is_secret(body: Mapping[str, Any]) -> bool:
    return body.get("kind") == "Secret" and body.get("apiVersion") == "v1"


def _contents(body: Mapping[str, Any]) -> Iterable[str]:
    """Every value of a Secret, as it is written, decoded and encoded; longer ones line by line too."""
    for field in ("data", "stringData"):
        values = body.get(field)
        for value in values.values() if isinstance(values, Mapping) else ():
            text = value if isinstance(value, str) else str(value)
            spellings = {text, base64.b64encode(text.encode()).decode()}
            if field == "data":
                # What the server will refuse is hidden as the text that it is.
                with contextlib.suppress(binascii.Error, ValueError):
                    spellings.add(base64.b64decode(text, validate=True).decode())
            for spelling in spellings:
                yield from (part for part in {spelling, *spelling.splitlines()} if part.strip())


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Matches any of `texts`, the longest first; nothing where there is none."""
    return re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or r"(?!)")


def _of_secret(finding: PolicyFinding, contents: re.Pattern[str]) -> PolicyFinding:
    values = {
        name: value if value is None or isinstance(value, bool | int | float) else HIDDEN
        for name, value in finding.values.items()
    }
    return dataclasses.replace(finding, message=contents.sub(HIDDEN, finding.message), values=values)


def _of_other(finding: PolicyFinding, contents: re.Pattern[str]) -> PolicyFinding:
    values = {name: _masked(value, contents) for name, value in finding.values.items()}
    return dataclasses.replace(finding, message=contents.sub(HIDDEN, finding.message), values=values)


def _masked(value: Any, contents: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return contents.sub(HIDDEN, value)
    if isinstance(value, Mapping):
        return {key: _masked(inner, contents) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_masked(inner, contents) for inner in value]
    return value
