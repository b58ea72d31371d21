"""Every wrong environment file says what golden files hold: place, value, what would be right.

`make golden` writes the expected texts again after a wording has changed; read the difference before
committing it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpupool.environment.plan.resolve import findings_of

FOLDER = Path(__file__).parents[2] / "golden" / "wrong_environments"
FILES = sorted(FOLDER.glob("*.yaml"))


def said_of(path: Path) -> str:
    return "".join(f"{finding}\n".replace(str(path.parent) + "/", "") for finding in findings_of(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_wrong_file_says_what_is_wrong(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    said = said_of(path)
    expected = path.with_suffix(".expected")
    if os.environ.get("GPUPOOL_WRITE_GOLDEN"):
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")
    assert said, "a wrong file has findings"


def test_there_are_enough() -> None:
    assert len(FILES) >= 40
    orphans = {path.stem for path in FOLDER.glob("*.expected")} - {path.stem for path in FILES}
    assert not orphans
