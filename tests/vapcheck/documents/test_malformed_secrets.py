"""Errors of a Secret are reported without its contents."""

from __future__ import annotations

from typing import Any

import pytest

from vapcheck import Document, check, read_text
from vapcheck.judging.redaction import without_secrets

HEAD = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
WORD = "hunter2hunter2"


def reported(text: str) -> list[str]:
    """Everything that reading and judging a text say."""
    documents, findings = read_text(text, "f.yaml")
    report = without_secrets(check(documents), documents)
    return [*map(str, findings), *(str(found) for found in report.findings)]


@pytest.mark.parametrize(
    "rest",
    [
        f"stringData: |\n  password: {WORD}\n",
        f"data: [{WORD}]\n",
        f"data: {WORD}\n",
        f"immutable: {WORD}\n",
        f"stringData: {{a: [{WORD}]}}\n",
        f"type: {{a: {WORD}}}\n",
        f"data:\n  a: *{WORD}\n",
        f"data:\n  a: !!int {WORD}\n",
        f"stringData:\n  key: |\n-----BEGIN {WORD}-----\n{WORD}\n-----END-----\n",
        f"---\n{WORD}\n",
    ],
)
def test_no_value_is_shown(rest: str) -> None:
    for text in (HEAD + rest, in_list(HEAD + rest), in_list(in_list(HEAD + rest))):
        said = reported(text)
        assert said, "the fault must still be reported"
        assert WORD not in "\n".join(said)


def in_list(text: str) -> str:
    """The object as an item of a SecretList."""
    first, _, _ = text.partition("\n---\n")
    lines = first.rstrip("\n").split("\n")
    item = "\n".join(("  - " if number == 0 else "    ") + line for number, line in enumerate(lines))
    return f"apiVersion: v1\nkind: SecretList\nitems:\n{item}\n" + text[len(first) :].lstrip("\n")


@pytest.mark.parametrize(
    "text",
    [
        f"kind: Secret\napiVersion: [{WORD}]\n",
        f"apiVersion: v1\nkind: SecretList\nitems: [{WORD}]\n",
        f"apiVersion: v1\nkind: SecretList\nitems: {WORD}\n",
        f"apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: SecretList, items: [[{WORD}]]}}\n",
        f'{{"kind": "Secret", "apiVersion": "v1", "data": {{"a": "{WORD}" "b"}}}}',
    ],
)
def test_no_value_of_what_is_no_object_is_shown(text: str) -> None:
    said = reported(text)
    assert said
    assert WORD not in "\n".join(said)


def test_of_other_kinds_values_are_shown() -> None:
    said = reported(HEAD.replace("Secret", "ConfigMap") + "data: [plain]\n")
    assert '["plain"]' in said[0]


def test_the_fault_is_named() -> None:
    documents: list[Document] = read_text(HEAD + "data: [x]\n", "f.yaml")[0]
    found: Any = check(documents).findings[0]
    assert (found.rule, found.path) == ("unreadable-field", "data")
    assert found.message.endswith("instead of an object")
