"""The examples of the delivery page are valid, and their rendering can be committed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import delivery, generate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "delivery.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_there_are_some() -> None:
    assert {yaml.safe_load(text)["delivery"]["engine"] for text in SNIPPETS} == {"argocd", "flux"}


@pytest.mark.parametrize("snippet", SNIPPETS)
@pytest.mark.parametrize("name", ["dev", "prod"])
def test_a_snippet_can_be_pasted_into_an_environment(snippet: str, name: str, tmp_path: Path) -> None:
    for source in (ROOT / "environments").glob("*.yaml"):
        shutil.copy(source, tmp_path)
    path = tmp_path / f"{name}.yaml"
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{snippet}", encoding="utf-8")
    assert delivery.wrappers(generate(read_plan(str(path))))


def test_git_takes_the_folder_that_the_page_renders_into() -> None:
    assert "-o rendered/prod" in PAGE
    if not (ROOT / ".git").exists():
        pytest.skip("no Git checkout")
    asked = subprocess.run(
        ["git", "check-ignore", "rendered/prod/index.json"], cwd=ROOT, capture_output=True, check=False
    )
    assert asked.returncode == 1, "ignored: what is delivered from there would never be committed"
