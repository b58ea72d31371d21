"""Variables say what they hold: those that say nothing become fewer, package by package, and never more.

Counted are names that are bound (assignments, arguments, loops). `make golden` writes the counts again, which
only go down.
"""

from __future__ import annotations

import ast
import os
from collections import Counter
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
COUNTS = Path(__file__).with_name("vague_names.yaml")
VAGUE = frozenset(("one", "found", "given", "wanted", "made", "said", "asked"))
PACKAGES = ("gpupool", "generators", "infra", "vapcheck")


def bound(text: str) -> Counter[str]:
    """Vague names that the source binds."""
    names = Counter[str]()
    for node in ast.walk(ast.parse(text)):
        name = ""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        names[name] += name in VAGUE
    return +names


def counts() -> dict[str, int]:
    """Package -> how many; of gpupool its packages and modules apart."""
    total = Counter[str]()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).parts
            name = "/".join(parts[:2]).removesuffix(".py") if package == "gpupool" else package
            total[name] += bound(path.read_text(encoding="utf-8")).total()
    return dict(sorted(total.items()))


def test_names_that_say_nothing_become_fewer() -> None:
    known: dict[str, int] = yaml.safe_load(COUNTS.read_text())
    now = counts()
    more = {name: (known.get(name, 0), count) for name, count in now.items() if count > known.get(name, 0)}
    assert not more, f"package: (before, now); call the new variables what they hold: {more}"
    if os.environ.get("GPUPOOL_WRITE_GOLDEN"):
        COUNTS.write_text(yaml.safe_dump({name: count for name, count in now.items() if count}))


def test_what_is_counted() -> None:
    text = "one = 1\nfor found, pool in x: print(one)\ndef f(given, tenant): return [said for said in given]"
    assert bound(text) == {"one": 1, "found": 1, "given": 1, "said": 1}
