"""What differs between sharing modes is an attribute of the mode's class, so that one more is one class."""

from __future__ import annotations

import re
from pathlib import Path

from gpupool.environment.sharing import sharing_modes

ROOT = Path(__file__).parents[3]
COMPARED = re.compile(r"""\bsharing\.mode (?:==|!=|in|not in) [("']""")


def test_no_code_asks_which_mode_it_is() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / "gpupool").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if COMPARED.search(line)
    ]
    assert not found


def test_names_are_different() -> None:
    assert len({mode.mode for mode in sharing_modes}) == len(sharing_modes)
