"""The page on conversions shows what the command prints and writes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "convert.md").read_text(encoding="utf-8")
INPUT = ROOT / "tests" / "golden" / "convert" / "vision" / "input"


def test_the_run_that_the_page_shows(tmp_path: Path) -> None:
    for file in INPUT.iterdir():
        shutil.copy(file, tmp_path)
    (block,) = re.findall(r"```console\n\$ gpupool (.*?)\n(.*?)```", PAGE, re.DOTALL)
    command, printed = block
    done = subprocess.run(
        [str(Path(sys.executable).with_name("gpupool")), *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.strip() == printed.strip()
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert shown in (tmp_path / "environments" / "vision.yaml").read_text(encoding="utf-8")
