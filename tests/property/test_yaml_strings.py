"""Whatever strings users choose: what the real kubectl reads from our YAML is what was meant.

GPUPOOL_FUZZ multiplies the number of strings.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.generators.emit import yaml_text
from gpupool.programs import binaries
from tests.examples import examples
from tests.kubectl import command_line

Object = dict[str, Any]
# fmt: off
AWKWARD = [
    "yes", "no", "y", "n", "on", "off", "Yes", "NO", "true", "False", "null", "Null", "~", "", " ", "  x",
    "x  ", "1e3", "1E3", "0777", "0o17", "0x1f", "0b11", "1_000", "1,000", "1.", ".5", "+1", "-1", "-", "+",
    ".", "...", ".inf", "-.INF", ".NaN", "nan", "inf", "12:30:45", "1:30", "2027-03-31",
    "2027-03-31T10:00:00Z", "=", "<<", "a: b", "a:", ":a", "#", "a #b", "a#b", "---", "--- a", "{{ x }}",
    "{a: b}", "[a]", "&a", "*a", "!a", "!!str a", "|", ">", "|-", "%a", "@a", "`a", "'", '"', "'a'", '"a"',
    "a\\nb", "\\", "?", "? a", "- a", ",", "a,b", "a\nb", "a\n", "\na", "\n", "a\n\nb\n", "a\r\nb", "\r",
    "a\tb", "\ta", "a\t", "a\n\tb\n", " a\nb\n", "a \nb\n", "a\n b\n", "a\n---\nb\n", "a\n# b\n",
    "a\n...\n", "e5", "\xe9", "\U0001d518", "\U0010ffff", "\x85", "a\x85b", "\u2028", "a\u2029b", "\ufeff",
    "\ufeffa", "\x00", "\x01", "\x1b[31m", "\x7f", "\xa0", "\u200b", "\ufffe", "\ud7ff", "\ue000",
    "x" * 5000, "word " * 400, "a\n" * 300, "x" * 200 + " " + "y" * 200,
]
# fmt: on
characters = st.characters(exclude_categories=("Cs",))
anything = st.one_of(
    st.sampled_from(AWKWARD),
    st.text(characters, max_size=30),
    st.text("yYnNoOeE0123456789._-+:~ \n\t#{}[]&*!|>'\"%@`,?<=\\", max_size=12),
    st.text("ab \n\t:#-", max_size=20),
    st.lists(st.sampled_from(AWKWARD), min_size=2, max_size=3).map("".join),
)


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The command line of kubectl up to its verb."""
    program = binaries.find("kubectl") or shutil.which("kubectl")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("no kubectl; `gpupool local up` builds one")
        pytest.skip("no kubectl here; `gpupool local up` builds one")
    with command_line(program, tmp_path_factory.mktemp("kubectl")) as command:
        yield command


def read_by(kubectl: list[str], text: str) -> list[Object]:
    """The objects that kubectl makes of `text`, as it prints them."""
    create = [*kubectl, "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-"]
    environment = {"HOME": "/nonexistent", "PATH": os.environ.get("PATH", "")}
    done = subprocess.run(create, input=text.encode(), capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()
    text, found = done.stdout.decode(), list[Object]()
    while text:
        body, end = json.JSONDecoder().raw_decode(text)
        found.append(body)
        text = text[end:].lstrip()
    return found


def config_map(number: int, strings: list[str]) -> Object:
    """A ConfigMap with the strings as keys and values of labels, annotations and data."""
    pairs = {f"k{index}": value for index, value in enumerate(strings)}
    # A label's key or value is checked by the server, not by the reader, so any string will do.
    metadata = {"name": f"m{number}", "labels": {value: value for value in strings}, "annotations": pairs}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": pairs}


def test_awkward_strings(kubectl: list[str]) -> None:
    maps = [config_map(number, AWKWARD[number::4]) for number in range(4)]
    assert_same(read_by(kubectl, "---\n".join(map(yaml_text, maps))), maps)


@examples("environments", 30)
@given(st.lists(st.lists(anything, max_size=20), min_size=1, max_size=20))
def test_any_strings(kubectl: list[str], batches: list[list[str]]) -> None:
    maps = [config_map(number, strings) for number, strings in enumerate(batches)]
    assert_same(read_by(kubectl, "---\n".join(map(yaml_text, maps))), maps)


def assert_same(read: list[Object], meant: list[Object]) -> None:
    for found, wanted in zip(read, meant, strict=True):
        found["metadata"].pop("namespace")
        assert found == wanted
