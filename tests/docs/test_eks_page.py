"""The page on EKS: what needs no cluster is run as it stands there, in one project of its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.docs.test_readme import ROOT, commands, matches

PAGE = (ROOT / "docs" / "eks.md").read_text(encoding="utf-8")


def test_what_needs_no_cluster_prints_what_the_page_shows(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": str(tmp_path / "none-yet"),
    }
    ran = 0
    for kind, block in re.findall(r"```(console|yaml)\n(.*?)```", PAGE, re.DOTALL):
        if kind == "yaml":
            with (tmp_path / "environments" / "prod.yaml").open("a", encoding="utf-8") as file:
                file.write(block)
            continue
        for command, expected in commands(f"```console\n{block}```"):
            done = subprocess.run(
                command,
                shell=True,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert matches(expected, done.stdout), f"$ {command}\n{done.stdout}{done.stderr}\n--- {expected}"
            ran += 1
    assert ran >= 9


def test_each_step_has_a_check() -> None:
    for step in re.split(r"^## (?=\d)", PAGE, flags=re.MULTILINE)[1:]:
        body = step.partition("\n## ")[0]
        assert "```console" in body or "| check |" in body or "Check:" in body, step.partition("\n")[0]
