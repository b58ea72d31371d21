"""`gpupool snippet`, as a machine runs it: YAML to apply, JSON, and the only environment by default."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.environment.plan.model import Pool
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.load import environment_names
from gpupool.generators.snippet.workloads import KINDS
from tests import command
from tests.admission import without

Object = dict[str, Any]
JUDGED_WHEN_CREATED = {"SparkApplication", "Workflow"}
"""Most of their pods is written by operators; tests/generators/snippet judges what comes of them."""
ROOT = Path(__file__).parents[2]


def gpupool(*arguments: str, folder: Path = ROOT, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpupool.cli.main", *arguments],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
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


def printed(environment: str, pool: Pool) -> list[Object]:
    """What the command prints for a pool: every kind, of every MIG profile."""
    profiles = [("--profile", name) for name in pool.sharing.layout] or [()]
    asked = [("--for", kind, *profile) for kind in KINDS for profile in profiles]
    answers = [
        command.gpupool("snippet", pool.name, "--env", environment, *options, folder=ROOT)
        for options in asked
    ]
    assert [one.stderr for one in answers if one.returncode] == []
    return [yaml.safe_load(one.stdout) for one in answers]


def findings(environment: str, path: Path, objects: list[Object]) -> list[Object]:
    """What `policy check` says of objects in the environment, notes left out."""
    path.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    said = command.gpupool("policy", "check", environment, str(path), "-o", "json", folder=ROOT)
    found: list[Object] = json.loads(said.stdout)["findings"]
    assert said.returncode == any(one["category"] == "deny" for one in found), said.stderr
    return [one for one in found if one["file"].endswith(path.name)]


@pytest.mark.parametrize("environment", environment_names())
def test_all_that_is_printed_passes_the_check_and_is_judged(environment: str, tmp_path: Path) -> None:
    plan = read_plan(environment)
    objects = [made for pool in plan.pools for made in printed(environment, pool)]
    assert findings(environment, tmp_path / "printed.yaml", objects) == []
    # And the check would notice, in each of them.
    bare = [without(made, "tolerations") for made in objects]
    refused = {
        (one["resource"]["kind"], one["resource"]["name"])
        for one in findings(environment, tmp_path / "bare.yaml", bare)
        if one["code"] == "gpu-pods-tolerate-their-pool"
    }
    assert refused == {
        (made["kind"], made["metadata"]["name"])
        for made in objects
        if made["kind"] not in JUDGED_WHEN_CREATED and plan.pool(made["metadata"]["name"]).taints
    }


def test_an_environment_is_named_where_there_are_several(tmp_path: Path) -> None:
    several = gpupool("snippet", "notebooks")
    assert several.returncode == 2
    assert several.stderr.startswith("add --env with one of: dev, homelab, local, prod, staging")
    (tmp_path / "environments").mkdir()
    text = (ROOT / "environments" / "homelab.yaml").read_text(encoding="utf-8")
    (tmp_path / "environments" / "homelab.yaml").write_text(text, encoding="utf-8")
    alone = gpupool("snippet", "desk", folder=tmp_path)
    assert yaml.safe_load(alone.stdout)["spec"]["nodeSelector"] == {"gpupool.dev/pool": "desk"}, alone.stderr
