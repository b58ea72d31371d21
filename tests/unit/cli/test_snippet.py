"""`gpupool snippet`, as a machine runs it: YAML to apply, JSON, and the only environment by default."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]


def gpupool(*arguments: str, folder: Path = ROOT, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpupool.cli.main", *arguments],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_what_is_printed_passes_the_check() -> None:
    asked = ("snippet", "notebooks", "--env", "prod", "--for", "deployment", "--tenant", "vision")
    printed = gpupool(*asked)
    assert printed.returncode == 0, printed.stderr
    found = json.loads(gpupool(*asked, "--format", "json").stdout)
    assert yaml.safe_load(printed.stdout) == found
    assert found["metadata"]["namespace"] == "team-vision"
    checked = gpupool("policy", "check", "prod", "-", given=printed.stdout)
    assert checked.returncode == 0, checked.stdout
    # And the check would notice.
    del found["spec"]["template"]["metadata"]["labels"]["gpupool.dev/shares-gpu"]
    refused = gpupool("policy", "check", "prod", "-", given=json.dumps(found))
    assert "deny  shared-gpu-pods-are-labelled" in refused.stdout


def test_an_environment_is_named_where_there_are_several(tmp_path: Path) -> None:
    several = gpupool("snippet", "notebooks")
    assert several.returncode == 2
    assert several.stderr.startswith("add --env with one of: dev, homelab, local, prod, staging")
    (tmp_path / "environments").mkdir()
    text = (ROOT / "environments" / "homelab.yaml").read_text(encoding="utf-8")
    (tmp_path / "environments" / "homelab.yaml").write_text(text, encoding="utf-8")
    alone = gpupool("snippet", "desk", folder=tmp_path)
    assert yaml.safe_load(alone.stdout)["spec"]["nodeSelector"] == {"gpupool.dev/pool": "desk"}, alone.stderr
