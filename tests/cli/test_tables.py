"""Tables of text output: 80 columns, whole words, and one line for each line of a cell."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.cli.output import WIDTH, print_table


def printed(columns: list[str], rows: list[list[str]], capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    print_table(columns, rows, fit=True)
    return capsys.readouterr().out.splitlines()


def test_cells_are_broken_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "what is in the way of this and what would repair it, said at length " * 3
    lines = printed(["what", "where", "why"], [["node", "ip-10-0-0-1.ec2.internal", sentence]], capsys)
    assert all(len(line) <= WIDTH for line in lines)
    assert " ".join(lines[1:]).split() == ["node", "ip-10-0-0-1.ec2.internal", *sentence.split()]


def test_a_narrow_table_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(["a", "b"], [["x  y", "1"]], capsys) == ["A     B", "x  y  1"]


def test_a_word_that_is_longer_than_all_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/" + "x" * 100
    assert path in printed(["a", "b"], [["some words that can be broken", path]], capsys)[1]


@given(rows=st.lists(st.lists(st.text(max_size=60), min_size=3, max_size=3), max_size=4))
def test_hostile_cells(rows: list[list[str]]) -> None:
    """A cell starts no line, and no line is longer than it has to be."""
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as out:
        print_table(["a", "b", "c"], rows, fit=True)
    lines = out.getvalue().split("\n")[:-1]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e]", out.getvalue())
    if all(len(cell) <= 3 for row in rows for cell in row) and not any(
        character in cell for row in rows for cell in row for character in "\n\r\t"
    ):
        assert len(lines) == len(rows) + 1
