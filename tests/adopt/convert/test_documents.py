"""Files with many documents: where each value stands, and what of a file can't be read."""

from __future__ import annotations

from pathlib import Path

from gpupool.adopt.convert.documents import MAX_DOCUMENTS, parse_documents, read_documents
from gpupool.adopt.convert.embedded import embedded

TWO = b"""# a comment
---
kind: A
metadata: {name: first}
--- # another
kind: B
metadata:
  namespace: team
  name: second
...
"""


def test_each_document_knows_its_lines() -> None:
    documents, findings = parse_documents("x.yaml", TWO)
    assert findings == []
    assert [document.title for document in documents] == ["A first", "B team/second"]
    assert documents[0].place(("metadata", "name")) == (4, 12)
    assert documents[1].place(("metadata", "name")) == (9, 3)


def test_a_list_is_its_items() -> None:
    raw = (
        b"kind: List\nitems:\n  - kind: A\n    metadata: {name: a}\n  - kind: BList\n    items: [{kind: B}]\n"
    )
    documents, _ = parse_documents("x.yaml", raw)
    assert [document.kind for document in documents] == ["A", "B"]
    assert documents[0].place(("kind",)) == (3, 5)
    assert documents[1].place(("kind",))[0] == 6


def test_a_marker_within_a_literal_block_is_text_when_indented() -> None:
    documents, findings = parse_documents("x.yaml", b"kind: A\ntext: |\n  one\n  ---\n  two\n")
    assert findings == []
    assert documents[0].data["text"] == "one\n---\ntwo\n"


def test_a_broken_document_spoils_no_other_and_has_its_line() -> None:
    documents, findings = parse_documents(
        "x.yaml", b"kind: A\n---\nkind: [B\n---\nkind: C\nkind: D\n---\nkind: E\n"
    )
    assert [document.kind for document in documents] == ["A", "E"]
    assert [finding.line for finding in findings] == [3, 6]


def test_aliases_that_explode_are_refused() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]" for n in range(8)]
    documents, findings = parse_documents("x.yaml", "\n".join(lines).encode())
    assert documents == []
    assert "aliases" in findings[0].what


def test_too_many_documents_are_refused() -> None:
    _, findings = parse_documents("x.yaml", b"---\na: 1\n" * (MAX_DOCUMENTS + 1))
    assert "documents" in findings[-1].what


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    documents, findings = read_documents(tmp_path / "none.yaml")
    assert documents == []
    assert "can't be read" in findings[0].what


def test_text_in_a_config_map_keeps_its_place() -> None:
    raw = b"kind: ConfigMap\nmetadata: {name: c}\ndata:\n  any: |\n    version: v1\n    sharing: {}\n  b: 1\n"
    documents, _ = parse_documents("x.yaml", raw)
    ((loc, inner),) = embedded(documents[0])
    assert loc == ("data", "any")
    assert inner.title == "ConfigMap c, any"
    assert inner.place(("sharing",))[0] == 6
