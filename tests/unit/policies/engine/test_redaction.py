"""What a Secret holds does not reach a report, whoever the finding is about."""

from __future__ import annotations

import base64
from typing import Any

from policies.engine.documents import from_bodies
from policies.engine.outcome import ObjectRef, PolicyFinding, Report
from policies.engine.redaction import without_secrets

PASSWORD = "correct-horse"
ENCODED = base64.b64encode(PASSWORD.encode()).decode()
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "db"},
    "data": {"key": ENCODED, "n": "MQ=="},
}


def redacted(kind: str, message: str, secret: dict[str, Any] = SECRET, **values: Any) -> PolicyFinding:
    finding = PolicyFinding("deny", "p", message, object=ObjectRef("v1", kind, None, "db"), values=values)
    report = Report((finding,), 1, 1, {"p": 1})
    return without_secrets(report, from_bodies([secret], "trial")).findings[0]


def test_of_a_secret_only_facts_are_shown() -> None:
    found = redacted("Secret", f"{PASSWORD} or {ENCODED}?", size=13, ok=False, shout="CORRECT", rows=["x"])
    assert found.message == "*** or ***?"
    assert found.values == {"size": 13, "ok": False, "shout": "***", "rows": "***"}


def test_text_is_hidden_in_its_encoded_form_too() -> None:
    plain = {**SECRET, "data": {}, "stringData": {"key": PASSWORD}}
    assert redacted("Pod", f"{ENCODED} {PASSWORD}", plain).message == "*** ***"


def test_another_object_may_not_tell_it_either() -> None:
    found = redacted("Pod", f"1 of {PASSWORD}", params={"data": [ENCODED, "1"]}, name="db")
    assert found.message == "1 of ***", "a short value is an ordinary word elsewhere"
    assert found.values == {"params": {"data": ["***", "1"]}, "name": "db"}


def test_text_that_is_no_base64_is_hidden_as_it_is() -> None:
    broken = {**SECRET, "data": {"key": "not base64 at all"}, "stringData": {"a": "line one\nline two"}}
    found = redacted("Secret", "not base64 at all, line two", broken)
    assert found.message == "***, ***"


def test_without_secrets_nothing_changes() -> None:
    settings = {**SECRET, "kind": "ConfigMap"}
    found = redacted("ConfigMap", ENCODED, settings, a=ENCODED)
    assert (found.message, found.values) == (ENCODED, {"a": ENCODED})
