"""Expressions for the differential suite, put together from the pieces in cel_expressions.yaml.

Every piece is used at least once per round; what fills its holes is drawn, from a seed that depends on the
piece alone, so that a new piece changes no other expression.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_HOLE = re.compile(r"\{([a-z_]+)\}")
_LONG_NAME = "a" * 70
_DEPTH = 2
_LEAF_CHANCE = 0.5
_WRONG_TYPE_CHANCE = 0.03
"""How often a hole gets something of another type, which mostly doesn't compile."""
_MOST_CHARACTERS = 600

_DATA: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
SPECIMEN: Mapping[str, Any] = _DATA["specimen"]
"""What `object.spec` is."""


@dataclass(frozen=True)
class Expression:
    """One expression, with a name that says which piece it is about."""

    name: str
    text: str


def expressions(rounds: int = 1) -> list[Expression]:
    """All of them; each round draws other fillings."""
    found = [
        Expression(f"refused-{index}", text)
        for index, text in enumerate(_DATA["refused"])
        if text is not None
    ]
    found += [Expression(f"whole-{index}", text) for index, text in enumerate(_DATA["whole"])]
    found += [
        Expression(f"deep-{index}", start + step * count + end)
        for index, (start, step, count, end) in enumerate(_DATA["deep"])
    ]
    for round_number in range(rounds):
        for kind, templates in _DATA["templates"].items():
            for index, template in enumerate(templates):
                name = f"{kind}-{index}" + (f"-{round_number}" if round_number else "")
                found.append(Expression(name, _made(kind, template, name)))
    return found


def _made(kind: str, template: str, seed: str) -> str:
    draw = random.Random(seed)
    shown = _DATA["shows"].get(kind, "{value}")
    for depth in range(_DEPTH, -1, -1):
        text = str(shown).replace("{value}", _filled(template, depth, draw))
        if len(text) <= _MOST_CHARACTERS:
            break
    return text


def _filled(template: str, depth: int, draw: random.Random) -> str:
    def fill(hole: re.Match[str]) -> str:
        kind = hole.group(1)
        if kind == "long":
            return _LONG_NAME
        if draw.random() < _WRONG_TYPE_CHANCE:
            kind = draw.choice(sorted(_DATA["templates"]))
        return _filled(_chosen(_DATA["templates"][kind], depth, draw), depth - 1, draw)

    protected = template.replace("{{", "\x00").replace("}}", "\x01")
    return _HOLE.sub(fill, protected).replace("\x00", "{").replace("\x01", "}")


def _chosen(templates: Sequence[str], depth: int, draw: random.Random) -> str:
    leaves = [template for template in templates if not _HOLE.search(template)]
    if leaves and (depth <= 0 or draw.random() < _LEAF_CHANCE):
        return draw.choice(leaves)
    return draw.choice(templates)
