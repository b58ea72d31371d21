"""`gpupool preview` and `up` ask policy first: what it denies is never sent, what it warns of is shown."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
RULE = "nodes-go"
SITE_POLICIES = ROOT / "tests" / "site_policies"


def gpupool(world: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`gpupool VERB FILE OPTIONS` as a machine runs it, in a project that has policies of its own."""
    verb, *options = arguments
    project = world.folder / "site"
    (project / "environments").mkdir(parents=True, exist_ok=True)
    shutil.copytree(SITE_POLICIES, project / "policies", dirs_exist_ok=True)
    file = shutil.copy(world.file, project / "environments")
    return subprocess.run(
        [sys.executable, "-m", "gpupool.cli.main", verb, file, *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def forbidden(world: Any) -> Any:
    """The nodes of a pool would never go, which a policy of the site's own denies."""
    world.spec["pools"][0]["nodes"] |= {"expireAfter": "Never", "consolidateAfter": "Never"}
    return world


@pytest.mark.parametrize("verb", ["preview", "up"])
def test_what_policy_denies_is_never_sent(forbidden: Any, verb: str) -> None:
    before = forbidden.everything()
    done = gpupool(forbidden, verb, *(["--yes"] if verb == "up" else []))
    assert done.returncode == 1
    assert f"deny {RULE}: NodePool notebooks: " in done.stderr
    assert "Set consolidateAfter" in done.stderr, "how to put it right"
    assert "1 finding; nothing changed" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert forbidden.everything() == before
    assert not forbidden.state.joinpath(".pulumi", "stacks", "gpupool").exists(), "not even a stack was made"


def test_machines_get_errors_and_findings(forbidden: Any) -> None:
    done = gpupool(forbidden, "up", "--yes", "--format", "json")
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert RULE in answer["errors"][0]
    (finding,) = answer["findings"]
    assert (finding["category"], finding["code"]) == ("deny", RULE)
    assert (finding["resource"]["kind"], finding["resource"]["name"]) == ("NodePool", "notebooks")
    assert finding["remediation"]
    assert finding["expression"]


def test_what_policy_warns_of_is_shown_and_goes_on(forbidden: Any) -> None:
    forbidden.spec["policies"] = {"overrides": {RULE: "warn"}}
    seen = gpupool(forbidden, "preview")
    assert seen.returncode == 0, seen.stderr
    assert f"warn {RULE}: NodePool notebooks: " in seen.stdout
    done = gpupool(forbidden, "up", "--yes", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [finding["code"] for finding in json.loads(done.stdout)["findings"]] == [RULE]
    assert forbidden.kube.get("karpenter.sh/v1", "NodePool", "notebooks")


def test_what_is_wrong_with_the_whole_is_denied_too(world: Any) -> None:
    world.spec["cost"] = {"monthlyUsdMax": 1}
    done = gpupool(world, "up", "--yes")
    assert done.returncode == 1
    assert "deny cost-within-ceiling: " in done.stderr


def test_what_is_denied_can_still_be_taken_away(world: Any) -> None:
    """A policy that comes later must not keep anybody from refresh and destroy."""
    assert gpupool(world, "up", "--yes").returncode == 0
    world.spec["cost"] = {"monthlyUsdMax": 1}
    assert gpupool(world, "refresh").returncode == 0
    gone = gpupool(world, "destroy", "--yes")
    assert gone.returncode == 0, gone.stderr
    assert world.kube.api.get("karpenter.sh/v1", "NodePool", "notebooks") is None
