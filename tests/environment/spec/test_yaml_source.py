"""Reading YAML: places, what is refused, and bounds on size and time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.spec.yaml_scalars import Unclear, plain_value
from gpupool.environment.spec.yaml_source import MAX_BYTES, MAX_NODES, parse_source, path_text, read_source
from gpupool.findings import Finding, SpecError
from tests.growth import LINEAR, growth


def refused(text: str | bytes) -> tuple[Finding, ...]:
    raw = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(SpecError) as caught:
        parse_source("x.yaml", raw).sound()
    return caught.value.findings


def only(text: str | bytes) -> Finding:
    (finding,) = refused(text)
    return finding


def test_places_of_keys_and_items() -> None:
    source = parse_source("x.yaml", b"a: 1\nb:\n  - c: 2\n    d: [x, {e: 3}]\n")
    assert source.data == {"a": 1, "b": [{"c": 2, "d": ["x", {"e": 3}]}]}
    assert source.place(("a",)) == (1, 1)
    assert source.place(("b",)) == (2, 1)
    assert source.place(("b", 0)) == (3, 5)
    assert source.place(("b", 0, "d")) == (4, 5)
    assert source.place(("b", 0, "d", 1)) == (4, 12)
    assert source.place(("b", 0, "d", 1, "e")) == (4, 13)


def test_place_of_something_absent_is_that_of_its_parent() -> None:
    source = parse_source("x.yaml", b"a:\n  b: {c: 1}\n")
    assert source.place(("a", "b", "missing", 3)) == (2, 3)
    assert source.place(()) == (1, 1)


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte-order-mark"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_windows_editors_are_welcome(prefix: bytes, newline: bytes) -> None:
    source = parse_source("x.yaml", prefix + newline.join([b"a: text", b"b:", b"  c: 1", b""]))
    assert source.data == {"a": "text", "b": {"c": 1}}
    assert source.place(("b", "c")) == (3, 3)


def test_tabs_as_indentation_are_refused_in_their_place() -> None:
    finding = only("a:\n\tb: 1\n")
    assert (finding.line, "not YAML") == (2, finding.what[:8])


@pytest.mark.parametrize(
    ("text", "line", "marker"),
    [
        ("<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> other\n", 1, "<<<<<<<"),
        ("a: 1\nb:\n<<<<<<< HEAD\n  c: 1\n=======\n  c: 2\n>>>>>>> other\n", 3, "<<<<<<<"),
        ("a: 1\r\n=======\r\nb: 2\r\n>>>>>>> other\r\n", 2, "======="),
        ("a: 1\nb: 2\n>>>>>>> other\n", 3, ">>>>>>>"),
    ],
)
def test_an_unresolved_conflict_is_named(text: str, line: int, marker: str) -> None:
    finding = only(text)
    assert (finding.line, finding.column) == (line, 1)
    assert finding.what == f"{marker}: a merge conflict is not resolved"
    assert "resolve it, and remove the lines" in finding.remediation


def test_what_only_looks_like_a_conflict_is_text() -> None:
    assert parse_source("x.yaml", b"a: |\n  <<<<<<< HEAD\n  =======\n").data == {
        "a": "<<<<<<< HEAD\n=======\n"
    }


def test_anchors_aliases_and_merge_keys() -> None:
    text = "base: &base {x: 1, z: 2}\none:\n  <<: *base\n  z: 3\ntwo:\n  <<: [*base, {q: 4}]\nthree: *base\n"
    source = parse_source("x.yaml", text.encode())
    assert source.data["one"] == {"x": 1, "z": 3}
    assert source.data["two"] == {"x": 1, "z": 2, "q": 4}
    assert source.data["three"] == {"x": 1, "z": 2}
    assert source.place(("one", "z")) == (4, 3)
    assert source.place(("one", "x")) == (1, 14), "where the value stands"


def test_a_quoted_merge_key_is_a_plain_key() -> None:
    assert parse_source("x.yaml", b'"<<": 1').data == {"<<": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: *nowhere", "no anchor &nowhere before this alias"),
        ("a: &a [*a]", "*a contains itself"),
        ("a: {<<: 1}", "a merge key needs a mapping"),
        ("a: 1\n---\na: 2", "a second document starts here"),
        ("a: !!python/object:os.system x", "tag tag:yaml.org,2002:python/object:os.system is not supported"),
        ("a: !!set {x}", "tag tag:yaml.org,2002:set is not supported"),
        ("a: !mine [x]", "tag !mine is not supported"),
        ("a: {{ x }}", "a mapping or list as key"),
        ("? [a]\n: 1", "a mapping or list as key"),
        ("b: &b x\n*b : 1", "an alias as key"),
        ("no: 1", "key no is not text to every YAML parser"),
        ("1: 1", "key 1 is not text to every YAML parser"),
        ("a: \x01", "character U+0001 is not allowed in YAML"),
        (b"a: \xff", "byte 0xff is not UTF-8"),
        ("a: [", "not YAML: did not find expected node content"),
    ],
)
def test_refused(text: str | bytes, said: str) -> None:
    assert only(text).what == said


def test_every_duplicate_key_is_reported_with_both_places() -> None:
    findings = refused("a: 1\nb: {c: 1, c: 2}\na: 3\n")
    assert [(f.line, f.column, f.path) for f in findings] == [(2, 11, "b.c"), (3, 1, "a")]
    assert "first in line 1" in findings[1].what


def test_a_character_is_found_behind_longer_ones() -> None:
    finding = only("a: é\nb: é𐀀\x01")
    assert (finding.line, finding.column) == (2, 6)


def test_a_byte_is_found_in_its_line() -> None:
    finding = only(b"a: 1\nbc: \xff\n")
    assert (finding.line, finding.column) == (2, 5)


def test_depth() -> None:
    assert parse_source("x.yaml", b"a: " + b"[" * 30 + b"]" * 30)
    assert "nested deeper" in only("a: " + "[" * 60 + "]" * 60).what
    assert "nested deeper" in only("\n".join(f"{' ' * i}a:" for i in range(60))).what


EXPANDED = f"more than {MAX_NODES} values once aliases are expanded"


def test_alias_bombs_end_early() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 12)]
    finding = only("\n".join(rows))
    assert (finding.what, finding.path) == (EXPANDED, "a5"), "at the first row that is too much"


def test_merge_bombs_end_early() -> None:
    """Each merge copies a mapping, so the bound must hold before the list of them is complete."""
    keys = ", ".join(f"k{i}: 1" for i in range(8000))
    finding = only(f"a: &a {{{keys}}}\nb:\n" + "- <<: *a\n" * 20_000)
    assert (finding.what, finding.line) == (EXPANDED, 2 + MAX_NODES // 8000)


def test_many_values_end_early() -> None:
    text = "a: ["
    finding = only(f"{text}{'1,' * (MAX_NODES + 50_000)}]")
    assert (finding.what, finding.column) == (EXPANDED, len(text) + 1 + len("1,") * (MAX_NODES - 1))


def test_long_scalars_take_linear_time() -> None:
    def parse(length: int) -> Any:
        return parse_source("x.yaml", b"a: " + b"1" * length + b"x").data["a"]

    assert parse(20) == "1" * 20 + "x"
    assert growth(parse, 60_000) < LINEAR


def test_size(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * MAX_BYTES + b"\n")
    with pytest.raises(SpecError, match="larger than 1 MiB"):
        read_source(path)
    path.write_bytes(b"#" * MAX_BYTES)
    assert read_source(path).data is None


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="can't be read"):
        read_source(tmp_path)


@pytest.mark.parametrize(
    "text", ["e5", "a", "no-1", "v1", "x0", "1x", "p4d.24xlarge", "10m", "1.2.3", "é", "1-2"]
)
def test_plain_words(text: str) -> None:
    assert plain_value(text) == text


UNCLEAR = (
    "yes No ON y N 0777 0o17 0x1F 0b1 1_000 1,000 1e3 1E5 1.5e3 5. .5 .inf -.Inf .nan 1:30 12:30:45 "
    "2027-03-31 2027-03-31T10:00:00Z 99999999999999999999 = <<"
)


@pytest.mark.parametrize("text", [*UNCLEAR.split(), "2027-03-31 10:00:00"])
def test_what_readers_disagree_about(text: str) -> None:
    value = plain_value(text)
    assert isinstance(value, Unclear)
    assert repr(value) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("-3", -3), ("0", 0), ("0.7", 0.7), ("true", True), ("False", False), ("", None), ("~", None)],
)
def test_what_readers_agree_about(text: str, value: object) -> None:
    found = plain_value(text)
    assert found == value
    assert type(found) is type(value)


def test_quotes_make_text() -> None:
    assert parse_source("x.yaml", b"a: \"1e3\"\nb: 'no'\nc: |\n  0777\n").data == {
        "a": "1e3",
        "b": "no",
        "c": "0777\n",
    }


def test_path_text() -> None:
    assert path_text(("pools", 1, "labels", "example.org/x")) == 'pools[1].labels["example.org/x"]'
