"""What the reader makes of texts: the hard cases, broken files, attacks, and places."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.generators.render import files
from tests.examples import examples
from tests.vapcheck.documents.hard_cases import FILES, KEYS, REFUSED, VALUES
from tests.vapcheck.documents.random_manifests import any_text, plain_text
from vapcheck import from_bodies, read_files, read_text
from vapcheck.manifests import go_yaml, plain_yaml
from vapcheck.manifests import place as manifest_place

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def exactly(value: Any) -> Any:
    """For comparing: 1, 1.0 and True are three things."""
    if isinstance(value, dict):
        return {key: exactly(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exactly(item) for item in value]
    return type(value), value


def read_one(text: str) -> Any:
    documents, findings = read_text(text, "f.yaml")
    if not documents:
        assert findings, "neither an object nor a finding"
        return REFUSED
    return documents[0].body


@pytest.mark.parametrize(("text", "expected"), VALUES)
def test_value(text: str, expected: Any) -> None:
    body = read_one(f"{HEAD}outer:\n  value: {text}\n")
    found = body if body is REFUSED else body["outer"]["value"]
    assert exactly(found) == exactly(expected)


@pytest.mark.parametrize(("text", "expected"), KEYS)
def test_key(text: str, expected: Any) -> None:
    body = read_one(f"{HEAD}outer:\n  {text}: x\n")
    found = body if body is REFUSED else next(iter(body["outer"]))
    assert found == expected


@pytest.mark.parametrize(("text", "expected"), FILES)
def test_file(text: str, expected: Any) -> None:
    documents, findings = read_text(text.removeprefix("\ufeff"), "f.yaml")
    if expected is REFUSED:
        assert findings
    else:
        assert [document.body["metadata"]["name"] for document in documents] == expected
        hints = {"start it with --- on a separate line"}  # what kubectl silently ignores is reported
        assert {finding.remediation for finding in findings} <= hints


@examples("policy engine", 400)
@given(st.randoms())
def test_plain_reader_agrees_with_the_exact_one(random: Random) -> None:
    text = plain_text(random)
    found = plain_yaml.read(text)
    if found is not NotImplemented:
        reading = go_yaml.read(text)
        assert exactly(found) == exactly(reading.value)
        assert not reading.duplicates


def test_the_usual_is_plain() -> None:
    """The fast reader is worth nothing if it declines what manifests are made of."""
    texts = [text for path, text in files(generate(read_plan("prod"))).items() if path.endswith(".yaml")]
    assert texts
    declined = [text for text in texts if plain_yaml.read(text.removeprefix("---\n")) is NotImplemented]
    assert len(declined) < len(texts) // 50, declined[:2]


@examples("policy engine", 300)
@given(st.randoms())
def test_no_text_crashes(random: Random) -> None:
    text = any_text(random)
    read_text(text, "f")
    read_text(text.replace("\n", "", 1), "f")
    json.dumps([document.body for document in read_text(text, "f")[0]])


def test_one_broken_document_hides_no_other() -> None:
    text = f"{HEAD}---\na: [\n---\ntext\n---\nkind: X\n---\n{HEAD}"
    documents, findings = read_text(text, "f.yaml")
    assert [document.line for document in documents] == [1, 11]
    assert [finding.line for finding in findings] == [6, 7, 9]
    assert all(finding.remediation for finding in findings)


@pytest.mark.parametrize(
    "text", ["kind: Pod\nmetadata: {}\n", f"{HEAD}metadata: text\n", "apiVersion: 1\nkind: Pod\n"]
)
def test_what_is_no_object_of_kubernetes(text: str) -> None:
    documents, findings = read_text(text, "f.yaml")
    assert documents == []
    assert findings


def test_templates_are_named_as_such() -> None:
    _, findings = read_text("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n", "t.yaml")
    assert "helm template" in findings[0].remediation
    assert findings[0].line == 4


def test_duplicate_keys_are_reported_and_the_last_counts() -> None:
    documents, findings = read_text(f"{HEAD}data:\n  a: x\n  b: v\n  a: z\n", "f.yaml")
    assert documents[0].body["data"] == {"a": "z", "b": "v"}
    assert (findings[0].line, findings[0].column) == (7, 3)


def test_alias_bomb_is_refused_unexpanded() -> None:
    """Expanded it is some 10^10 values, which no machine holds."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    documents, findings = read_text(HEAD + "\n".join(lines) + "\n", "bomb.yaml")
    assert (documents, len(findings)) == ([], 1)
    assert "alias" in findings[0].message


@pytest.mark.parametrize("text", ["a: " + "[" * 50_000, "[" * 50_000, '{"a":' * 50_000, "- " * 50_000 + "x"])
def test_absurd_nesting_is_refused(text: str) -> None:
    documents, findings = read_text(text, "deep")
    assert documents == []
    assert findings


HELD = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"big": ""}}
ROOM = (3 << 20) - len(json.dumps(HELD, separators=(",", ":"))) - 1
"""Bytes that the value may have: the API server reads 3,145,728, of which the last is a line end."""


@pytest.mark.parametrize(
    ("filling", "bytes_each"),
    [("x", 1), ("é", 2), ("\N{GRINNING FACE}", 4), ("<", 6), ("&", 6), ("\\n", 2), ("\\0", 6), ("\\L", 6)],
)
def test_large_object(filling: str, bytes_each: int) -> None:
    """What the server takes is judged; one character more is a finding, which hides no other document."""
    count = ROOM // bytes_each
    for times, taken in ((count, True), (count + 1, False)):
        text = f'{HEAD}data:\n  big: "{filling * times}"\n---\n{HEAD.replace("name: a", "name: b")}'
        documents, findings = read_text(text, "big.yaml")
        assert [document.body["metadata"]["name"] for document in documents] == (
            ["a", "b"] if taken else ["b"]
        )
        assert [(finding.file, finding.line) for finding in findings] == ([] if taken else [("big.yaml", 1)])
    assert "3,145,728" in findings[0].message


def test_objects_that_only_aliases_make_large() -> None:
    lines = [f"  k{number}: *it" for number in range(40)]
    text = "\n".join([f"{HEAD}data:", f"  first: &it {'x' * 80_000}", *lines, ""])
    documents, findings = read_text(text, "big.yaml")
    assert (documents, len(findings)) == ([], 1)


def test_a_list_may_be_large() -> None:
    item = f"- {HEAD.replace(chr(10), chr(10) + '  ')}data: {{big: {'x' * (2 << 20)}}}\n"
    documents, findings = read_text(f"apiVersion: v1\nkind: List\nitems:\n{item}{item}", "big.yaml")
    assert (len(documents), findings) == (2, [])


def test_files(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one.yaml").write_text(HEAD)
    (tmp_path / "a.yml").write_bytes(HEAD.encode("utf-16-le").join([b"\xff\xfe", b""]))
    (tmp_path / "bom.json").write_bytes(b'\xef\xbb\xbf{"apiVersion": "v1", "kind": "Pod", "metadata": {}}')
    (tmp_path / "latin.yaml").write_bytes(HEAD.encode() + b"data:\n  a: caf\xe9\n")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    (tmp_path / "b" / "up").symlink_to("..")
    (tmp_path / "notes.txt").write_text("no manifest")
    documents, findings = read_files([tmp_path, tmp_path / "missing.yaml"])
    names = [Path(document.file).name for document in documents]
    assert names == ["a.yml", "one.yaml", "bom.json", "latin.yaml"]
    assert documents[3].body["data"]["a"] == "caf\ufffd"
    places = {(Path(finding.file).name, finding.line, finding.column) for finding in findings}
    assert places == {("latin.yaml", 5, 9), ("loop.yaml", 1, 1), ("gone.yaml", 1, 1), ("missing.yaml", 1, 1)}


def test_folder_without_manifests(tmp_path: Path) -> None:
    assert read_files([tmp_path])[1][0].message == "a folder without manifests"


def test_objects_that_were_never_text() -> None:
    items = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}, {}]
    documents = from_bodies([{"apiVersion": "v1", "kind": "List", "items": items}], "rendered")
    assert [(document.line, document.position("spec")) for document in documents] == [(0, (0, 0))]


POSITIONS = """# a comment
---
apiVersion: v1
kind: Pod # here
metadata:
  name: x
  labels: {a.b/c: d}
spec:
  containers:
  - name: a
    image: b
  - name: c
    args: [x, y]
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("metadata.name", (6, 3)),
        ("spec.containers[0].image", (11, 5)),
        ("spec.containers[1]", (12, 5)),
        ("spec.containers[1].args[1]", (13, 15)),
        ('metadata.labels["a.b/c"]', (7, 12)),
        ("spec.missing.more", (8, 1)),
    ],
)
def test_position(path: str, place: tuple[int, int]) -> None:
    for text in (POSITIONS, POSITIONS.replace("image: b", "image: !!str b")):  # by lines, by the parser
        document = read_text(text, "f")[0][0]
        assert document.line == 3
        assert document.position(path) == place


@examples("policy engine", 300)
@given(st.randoms())
def test_places_by_lines_are_those_of_the_parser(random: Random) -> None:
    text = plain_text(random)
    value = plain_yaml.read(text)
    if value is NotImplemented:
        return
    for path in _paths(value):
        quick = manifest_place.by_lines(text, path)
        assert quick is None or quick == manifest_place.by_parser(text, path), path


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += _paths(item, (*path, key))
        found.append((*path, "missing"))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _paths(item, (*path, index))
        found.append((*path, 99))
    return found


def test_lines_of_items() -> None:
    item = "- apiVersion: v1\n  kind: Pod\n  metadata: {name: x}\n"
    text = f"apiVersion: v1\nkind: List\nitems:\n{item}# between\n{item}{item.replace('v1', '*x')}"
    found = read_text(text.replace("*x", "v1"), "f")[0]
    assert [document.line for document in found] == [4, 8, 11]
    assert found[2].position("metadata.name")[0] == 13


def test_one_reader_of_events() -> None:
    """All that needs places in YAML gets them from the same nodes."""
    root = Path(__file__).parents[3]
    trees = [root / name for name in ("gpupool", "vapcheck")]
    files = [
        path
        for tree in trees
        for path in tree.rglob("*.py")
        if re.search(r"\byaml\.parse\(", path.read_text())
    ]
    assert files == [root / "vapcheck" / "manifests" / "yaml_nodes.py"]
