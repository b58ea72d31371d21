"""What lies at the top level of the repository, and the public surface of the policy engine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import vapcheck

ROOT = Path(__file__).parents[2]
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: team}
spec: {containers: [{name: a, image: x}]}
"""
TOP = {
    *("environments", "policies", "charts", "infra", "gpupool", "vapcheck"),
    *("tests", "docs", "examples", "tools", "ci", ".ci", ".github"),
    *("README.md", "CHANGELOG.md", "LICENSE", "Makefile", "Pulumi.yaml", "pyproject.toml", ".gitignore"),
    *("setup.py", "MANIFEST.in", "Dockerfile", ".dockerignore"),
    *("CONTRIBUTING.md", "SECURITY.md", ".editorconfig", ".pre-commit-config.yaml"),
    *("requirements.lock", "requirements-image.lock", "requirements-dev.in", "requirements-dev.lock"),
}
"""Each name here makes the repository harder to understand: try to find a folder for it first."""


def tracked() -> list[str]:
    """Every file that Git knows, and those that it neither knows nor ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    return subprocess.check_output(command, cwd=ROOT, text=True).splitlines()


def test_nothing_unexpected_lies_at_the_top_level() -> None:
    assert {path.split("/")[0] for path in tracked()} <= TOP


def test_policies_are_data() -> None:
    assert not [path for path in tracked() if path.startswith("policies/") and path.endswith(".py")]


def test_the_surface_of_the_policy_engine_is_there() -> None:
    for name in vapcheck.__all__:
        assert getattr(vapcheck, name) is not None


def test_the_example_of_the_policy_engine_runs(tmp_path: Path, monkeypatch, capsys) -> None:
    page = (ROOT / "vapcheck" / "README.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "pod.yaml").write_text(POD)
    (tmp_path / "policies").symlink_to(ROOT / "policies")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        exec(compile(example, "README.md", "exec"), {})
    assert end.value.code in (0, 1)
    assert "gpus-are-requested" in capsys.readouterr().out
