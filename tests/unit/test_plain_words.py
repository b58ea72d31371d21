"""Names, docstrings, messages and docs use the words of Kubernetes' own documentation.

The list holds words that were once a private dialect here, each with what to write instead.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTEAD = {
    r"\btold\b|_told\b": "reported, shown, named",
    r"\b(is|are) told\b": "is reported, are configured",
    r"\btold apart\b|\btells? \w+ apart\b": "distinguished",
    r"\bmend(s|ed|ing)?\b": "fix, restore",
    r"\bstrangers?\b": "unrelated, foreign, other",
    r"\bwhoever\b": "the user, the caller, every engine that",
    r"(?<!['\"])\bnobody\b(?!['\"])": "no user, unknown, unused",
    r"\bclothes\b": "IPv4-mapped",
    r"\briddles?\b": "unclear error",
    r"\banew\b": "again",
    r"\bcomes? back as (it|they) (was|were)\b": "is returned unchanged",
    r"\bkeeps? (its|their) hands off\b": "does not change",
    r"\bis no business of\b|\b(callers?'s?|s') business\b|'s business\b": "say what handles it",
    r"'s to (say|know)\b": "say what decides it",
    r"\bin vain\b": "without effect",
    r"\bnought\b": "zero",
    r"\bclass (Way|Sight|Side)\b": "the domain's term",
    r"\bdef _?(look|told|tell|mend)\(": "prepare, inspect, report, restore",
    r"\bsight\b": "inputs, snapshot, view",
    r"\bthe looks?\b": "check",
}
CHECKED = (".py", ".md", ".yaml", ".yml", ".j2", ".toml", "Makefile")
EXCLUDED = (
    "tests/fixtures/",
    "policies/fixtures/",
    "tests/unit/test_plain_words.py",
    "tests/vapcheck/fixtures/test_fixtures.py",  # a user is called nobody there
    "gpupool/local/crds/",
)


def texts() -> dict[str, str]:
    """The tracked files that people read."""
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    chosen = [name for name in listed if name.endswith(CHECKED) and not name.startswith(EXCLUDED)]
    return {name: (ROOT / name).read_text("utf-8", "replace") for name in chosen if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def read() -> dict[str, str]:
    return texts()


@pytest.mark.parametrize("words", INSTEAD)
def test_no_file_has_words_of_the_dialect(words: str, read: dict[str, str]) -> None:
    pattern = re.compile(words, re.IGNORECASE)
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in read.items()
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"write instead: {INSTEAD[words]}\n" + "\n".join(found)
