"""Single changes to YAML texts: what is left of the text around them, to the byte."""

from __future__ import annotations

import pytest

from gpupool.environment.yaml_edit import SharedValueError, Text, flow_text

BLOCK = """\
# head
queue:
  retries: 3   # attempts

  # how long
  aging: 30m
pools:
  # the first
  - name: a
    nodes: {max: 1, warm: 0}  # two
  # the second
  -   # dash-comment
      name: b
      sharing:
        mode: mig
        layout: {1g.10gb: 7}

# tail
"""
SHARING = ":\n        mode: mig\n        layout: {1g.10gb: 7}"


@pytest.mark.parametrize(
    ("loc", "value", "before", "after"),
    [
        (("queue", "retries"), "5", "retries: 3   #", "retries: 5   #"),
        (("queue", "database"), "{a: b}", "# attempts\n", "# attempts\n  database: {a: b}\n"),
        (("pools", 0, "nodes", "max"), "9", "{max: 1,", "{max: 9,"),
        (("pools", 0, "nodes", "zones"), "[x]", "warm: 0}", "warm: 0, zones: [x]}"),
        (("pools", 1, "sharing"), "{mode: mps}", SHARING, ": {mode: mps}"),
        (("pools", 0, "labels", "team"), "x", "  # two\n", "  # two\n    labels: {team: x}\n"),
        (("karpenter",), "{version: 1.2.3}", "{1g.10gb: 7}\n", "{1g.10gb: 7}\nkarpenter: {version: 1.2.3}\n"),
    ],
)  # fmt: skip
def test_set(loc: tuple[str | int, ...], value: str, before: str, after: str) -> None:
    text = Text(BLOCK)
    text.set(loc, value, lambda key: key != "aging")
    assert text.text == BLOCK.replace(before, after)
    assert before in BLOCK


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_new_first_key_leaves_a_comment_with_its_line(newline: str) -> None:
    before = "layout:\n  # for notebooks,\n  # seven of them\n  1g.10gb: 7\n  # for training\n  3g.40gb: 1\n"
    text = Text(before.replace("\n", newline))
    text.set(("layout", "2g.20gb"), "2", lambda key: False)
    after = before.replace("layout:\n", "layout:\n  2g.20gb: 2\n")
    assert text.text == after.replace("\n", newline)
    text.set(("layout", "4g.40gb"), "3", lambda key: key == "1g.10gb")
    after = after.replace("1g.10gb: 7\n", "1g.10gb: 7\n  4g.40gb: 3\n")
    assert text.text == after.replace("\n", newline)


def test_a_new_first_key_of_an_item_stands_behind_its_dash() -> None:
    text = Text("a:\n  # one\n  - x: 1\n    y: 2\n")
    text.set(("a", 0, "w"), "0", lambda key: False)
    assert text.text == "a:\n  # one\n  - w: 0\n    x: 1\n    y: 2\n"


@pytest.mark.parametrize(
    ("loc", "gone"),
    [
        (("queue", "retries"), "  retries: 3   # attempts\n"),
        (("queue", "aging"), "  # how long\n  aging: 30m\n"),
        (("pools", 0, "nodes", "max"), "max: 1, "),
        (("pools", 0, "nodes", "warm"), ", warm: 0"),
        (("pools", 1, "sharing", "layout", "1g.10gb"), "        layout: {1g.10gb: 7}\n"),
    ],
)
def test_delete(loc: tuple[str | int, ...], gone: str) -> None:
    text = Text(BLOCK)
    text.delete(loc)
    assert text.text == BLOCK.replace(gone, "")
    assert gone in BLOCK


def test_what_is_empty_goes_too() -> None:
    text = Text("a: {b: {c: 1}}\nd:\n  e: 2\nf: 3\n")
    text.delete(("a", "b", "c"))
    text.delete(("d", "e"))
    assert text.text == "f: 3\n"


def test_items_come_and_go_with_the_comments_above_them() -> None:
    text = Text(BLOCK)
    text.insert_item(("pools",), 1, "# new\n- name: c", "{name: c}")
    assert "# two\n  # new\n  - name: c\n  # the second\n  -   # dash-comment\n" in text.text
    text.delete_item(("pools",), 1)
    assert text.text == BLOCK
    text.delete_item(("pools",), 1)
    assert text.text == BLOCK[: BLOCK.index("  # the second")] + "\n# tail\n"
    text.delete_item(("pools",), 0)
    assert "pools: []\n" in text.text


def test_an_item_goes_in_front() -> None:
    text = Text("pools:\n- name: a\n")
    text.insert_item(("pools",), 0, "- name: b", "{name: b}")
    assert text.text == "pools:\n- name: b\n- name: a\n"


def test_lists_in_one_piece_and_none() -> None:
    text = Text("pools: [{name: a}, {name: b}]\n")
    text.insert_item(("pools",), 1, "- x", "{name: c}")
    text.insert_item(("pools",), 3, "- x", "{name: d}")
    assert text.text == "pools: [{name: a}, {name: c}, {name: b}, {name: d}]\n"
    for _ in range(4):
        text.delete_item(("pools",), 0)
    assert text.text == "pools: []\n"
    text.insert_item(("pools",), 0, "- name: e", "{name: e}")
    assert text.text == "pools:\n  - name: e\n"


def test_a_block_item_is_copied_with_its_lines() -> None:
    text = Text(BLOCK)
    node = text.node(("pools", 1))
    assert node is not None
    lines = text.lines_of(node)
    assert (
        lines == "-   # dash-comment\n    name: b\n    sharing:\n      mode: mig\n      layout: {1g.10gb: 7}"
    )


def test_line_breaks_of_the_file_are_kept() -> None:
    text = Text("queue:\r\n  retries: 3\r\npools:\r\n  - name: a\r\n")
    text.set(("queue", "aging"), "5m")
    text.insert_item(("pools",), 1, "- name: b\n  gpu: t4", "{}")
    assert text.text.count("\n") == text.text.count("\r\n") == 7
    assert text.text.endswith("  - name: a\r\n  - name: b\r\n    gpu: t4\r\n")


def test_characters_beyond_the_basic_plane_do_not_shift_places() -> None:
    text = Text('# 😀\na: "😀é"\nb: 1\n')
    text.set(("b",), "2")
    assert text.text == '# 😀\na: "😀é"\nb: 2\n'


def test_an_alias_is_not_changed_behind_its_owner() -> None:
    text = Text("a: &x {b: 1}\nc: *x\n")
    with pytest.raises(SharedValueError, match=r"line 2: \*x refers to a value"):
        text.set(("c", "b"), "2")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"mode": "mig", "layout": {"1g.10gb": 7}}, "{mode: mig, layout: {1g.10gb: 7}}"),
        (["p5.48xlarge", "no", "y", "1e3", ""], '[p5.48xlarge, "no", "y", "1e3", ""]'),
        ({"a": True, "b": None, "c": 0.5}, "{a: true, b: null, c: 0.5}"),
        ("Sat 02:00-06:00 UTC", '"Sat 02:00-06:00 UTC"'),
        ('a "b"\n', '"a \\"b\\"\\n"'),
    ],
)
def test_values_in_one_piece(value: object, written: str) -> None:
    assert flow_text(value) == written
