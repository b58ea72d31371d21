"""The rules that hold everywhere: said in the documentation as in the data, and each holds."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from gpupool.review.promote.rules import general, rules_of

ROOT = Path(__file__).parents[3]
RULES = rules_of(None, date(2027, 1, 1))


def documented() -> set[str]:
    """The paths of the table in docs/promotion.md."""
    text = (ROOT / "docs" / "promotion.md").read_text(encoding="utf-8")
    table = text[text.index("These stay where they are") :].split("\n\n")[1]
    found = set()
    for section, fields in re.findall(r"^\| (\w+) \| (.*) \|$", table, re.MULTILINE):
        item = ".*" if section in ("pools", "priorities") else ""
        below = fields.index("of `nodes`") if "of `nodes`" in fields else len(fields)
        names = [(match[1], match.start() > below) for match in re.finditer(r"`([\w.]+)`", fields)]
        found |= {
            f"{section}{item}.{'nodes.' if nodes else ''}{name}" for name, nodes in names if name != "nodes"
        }
    return found


def test_the_documentation_lists_what_stays() -> None:
    assert documented() == set(general())


@pytest.mark.parametrize("path", list(general()))
def test_every_rule_covers_its_field_and_what_is_below_and_no_neighbour(path: str) -> None:
    field = path.replace("*", "any")
    assert RULES.stays(field)
    assert RULES.stays(f"{field}.below")
    assert not RULES.stays(f"{field}More")
    assert not RULES.stays(field.rpartition(".")[0])


@pytest.mark.parametrize("path", ["pools.a.sharing", "pools.a.labels.example.org/x", "karpenter.version"])
def test_the_rest_is_promoted(path: str) -> None:
    assert not RULES.stays(path)
