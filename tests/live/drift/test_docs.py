"""docs/assert.md names every kind of difference that there is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
_KINDS = (
    r'code="([a-z-]+)"',
    r'Cause\(\s*"([a-z-]+)"',
    r'_(?:drift|stuck|unplanned)\([^()"]*"([a-z-]+)"',
)


def test_every_kind_is_documented() -> None:
    sources = sorted((ROOT / "gpupool" / "live" / "drift").glob("*.py"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    kinds = {kind for pattern in _KINDS for kind in re.findall(pattern, text)}
    assert {"missing", "mig-failed", "two-pools", "claim-stuck", "release-version"} <= kinds
    documented = set(re.findall(r"`([a-z-]+)`", (ROOT / "docs" / "assert.md").read_text(encoding="utf-8")))
    assert kinds - documented == set()
