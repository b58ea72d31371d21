"""No bytes make the loader crash, and what it says points into the file.

GPUPOOL_FUZZ=50 runs fifty times as many examples.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gpupool.environment.plan.resolve import resolve
from gpupool.environment.project import environments_folder
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.findings import Finding, SpecError
from gpupool.generators import generate
from gpupool.generators.render import files
from tests.environment_files import text_of
from tests.environment_strategies import AWKWARD, environments
from tests.examples import examples
from tests.selection import some

WRONG = Path(__file__).parents[1] / "golden" / "wrong_environments"
SEEDS = [path.read_bytes() for path in (*environments_folder().glob("*.yaml"), *WRONG.glob("*.yaml"))]
TREES = [yaml.safe_load(path.read_bytes()) for path in environments_folder().glob("*.yaml")]


def survives(raw: bytes) -> None:
    """Resolve `raw`: a plan that can be rendered, or findings that all have a place inside of it."""
    findings: tuple[Finding, ...] = ()
    try:
        files(generate(resolve(check_shape(parse_source("fuzz.yaml", raw)))))
    except SpecError as error:
        findings = error.findings
        assert findings, "an error that says nothing"
    assert len(set(findings)) == len(findings), "said twice"
    # YAML 1.1 ends lines at these too, and so do the editors that show such a file.
    lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", raw.decode("utf-8-sig", errors="replace"))
    for finding in findings:
        assert finding.what
        assert finding.remediation
        assert "\n" not in str(finding)
        assert 1 <= finding.line <= len(lines)
        if not finding.what.startswith("byte "):
            assert 1 <= finding.column <= len(lines[finding.line - 1]) + 1


@examples("environments", 300)
@given(st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    survives(raw)


@examples("environments", 300)
@example("---")
@given(st.text("ab01 \n\t:-[]{}&*!|>'\"%@`#,?<=~.\\é\x85\u2028", max_size=60))
def test_anything_that_looks_like_yaml(text: str) -> None:
    survives(text.encode())


@examples("environments", 200)
@given(st.data())
def test_damaged_files(data: st.DataObject) -> None:
    """Bytes of real files removed, doubled and replaced."""
    raw = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw)))
        end = data.draw(st.integers(start, min(len(raw), start + 40)))
        part = data.draw(
            st.sampled_from([b"", bytes(raw[start:end]) * 2, b"\t", b"\x00", b"&a ", b"*a", b"- ", b": "])
        )
        raw[start:end] = data.draw(st.one_of(st.just(part), st.binary(max_size=5)))
    survives(bytes(raw))


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(("", "-", "[key]", "mig", "sharing", "exclusive", "x" * 300, "é", "a\nb", *AWKWARD)),
    st.sampled_from(
        [[], {}, [[]], [{}], {"": None}, {"mode": "mig"}, {"[key]": 1}, [None], {"name": "a"}]
    ).map(copy.deepcopy),
    st.text(max_size=8),
)


def nodes_of(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found = list[tuple[Any, Any]]()
    for key, value in items:
        found += [(tree, key), *nodes_of(value)]
    return found


def mutate(data: st.DataObject, tree: Any) -> None:
    """Change one node in place: delete, double, retype, rename or exchange it."""
    places = nodes_of(tree)
    if not places:
        return
    container, key = data.draw(st.sampled_from(range(len(places))).map(places.__getitem__))
    match data.draw(st.sampled_from(("delete", "double", "replace", "rename", "exchange", "unknown"))):
        case "delete":
            del container[key]
        case "double" if isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        case "rename" if isinstance(container, dict):
            container[
                data.draw(st.one_of(st.text(max_size=5), st.sampled_from(("[key]", "name", "mode"))))
            ] = container.pop(key)
        case "exchange":
            other, there = data.draw(st.sampled_from(range(len(places))).map(places.__getitem__))
            container[key] = copy.deepcopy(other[there])
        case "unknown" if isinstance(container[key], dict):
            container[key][data.draw(st.text(max_size=5))] = data.draw(leaves)
        case _:
            container[key] = data.draw(leaves)


@examples("environments", 500)
@given(st.data())
def test_mutated_trees(data: st.DataObject) -> None:
    """Real environments with nodes deleted, doubled, retyped, renamed and exchanged."""
    tree = copy.deepcopy(data.draw(st.sampled_from(TREES)))
    for _ in range(data.draw(st.integers(1, 5))):
        mutate(data, tree)
    survives(text_of(tree).encode())


@examples("environments", 60)
@given(st.data())
def test_mutated_random_environments(data: st.DataObject) -> None:
    tree = data.draw(environments())
    for _ in range(data.draw(st.integers(0, 3))):
        mutate(data, tree)
    survives(text_of(tree).encode())


def test_large_files_of_every_repeated_token() -> None:
    """Where a reader takes quadratic time or memory, 200 kB of one token show it."""
    tokens = [
        "[",
        "{",
        "- ",
        "? ",
        "a: ",
        "a: &a ",
        "- a\n",
        "a:\n",
        "'",
        '"',
        "|\n",
        "#",
        "!",
        "&a ",
        "*a ",
        "\\",
    ]
    tokens += [
        "1",
        "1_",
        "1.",
        "1:1",
        "-",
        "\n",
        "\r",
        "[],",
        "{},",
        "- [",
        "- - ",
        "a,",
        "%a\n",
        "---\n",
        "'' ",
        "<<: ",
    ]
    for token in some("environments", tokens, 8):
        for prefix in ("", "a: ", "a: [", "pools: [", "a: '", 'a: "'):
            survives((prefix + token * (200_000 // len(token))).encode())
