"""Nothing is deleted or replaced without somebody's yes, and nothing protected without its name."""

from __future__ import annotations

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from gpupool.findings import UsageError
from gpupool.infra import stack
from gpupool.infra.recovery import ProtectedError
from tests.cluster.pulumi.conftest import no_models
from tests.terminal import answered_at_a_terminal

ROOT = Path(__file__).parents[3]


def ops(result: Any) -> dict[str, str]:
    return {entry.resource: entry.op for entry in result.objects}


def gpupool(world: Any, variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """`gpupool VERB FILE OPTIONS` without a terminal."""
    verb, *options = arguments
    return subprocess.run(
        [sys.executable, "-m", "gpupool.cli.main", verb, world.file, *options],
        cwd=ROOT,
        env={**variables, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_tenant_goes_only_with_consent(world: Any) -> None:
    world.up()
    tenant = world.spec.pop("tenants")
    seen = world.preview()
    assert ops(seen)["Namespace/trial-vision"] == "delete"
    assert "gpupool up trial --allow-delete Namespace/trial-vision" in seen.refused
    allowed = world.preview("Namespace/trial-vision")
    assert allowed.refused is None
    assert ops(allowed) == ops(seen)
    with pytest.raises(UsageError, match=r"nonsense.*it would delete Namespace/trial-vision"):
        world.preview("nonsense")
    with pytest.raises(ProtectedError, match="--allow-delete Namespace/trial-vision"):
        world.up()
    assert world.kube.api.get("v1", "Namespace", "trial-vision") is not None
    done = world.up("Namespace/trial-vision")
    assert ops(done) == ops(seen)
    assert world.kube.api.get("v1", "Namespace", "trial-vision") is None
    world.spec["tenants"] = tenant
    assert ops(world.up())["Namespace/trial-vision"] == "create"


def test_what_the_question_was_about_is_what_is_done(
    world: Any, environment_variables: dict[str, str]
) -> None:
    """The file changes back while `up` waits for an answer: the yes was for what was shown."""
    world.up()
    spec = deepcopy(world.spec)
    del world.spec["tenants"]
    file = world.file
    command = [sys.executable, "-m", "gpupool.cli.main", "up", file]

    def answer() -> str:
        assert world.kube.api.get("v1", "Namespace", "trial-vision") is not None
        world.spec = spec
        assert "tenants" in Path(world.file).read_text()
        return "y"

    code, sent = answered_at_a_terminal(
        [*command, "--allow-delete", "Namespace/trial-vision"],
        "Proceed?",
        answer,
        ROOT,
        {**environment_variables, "PYTHONPATH": str(ROOT)},
    )
    assert code == 0, sent
    assert "has changed meanwhile; the previous version was applied" in " ".join(sent.split())
    assert world.kube.api.get("v1", "Namespace", "trial-vision") is None
    assert ops(world.up())["Namespace/trial-vision"] == "create"


def test_what_was_read_is_what_is_applied(world: Any) -> None:
    world.up()
    desired = stack.read(world.file)
    del world.spec["tenants"]
    assert "tenants" not in Path(world.file).read_text()
    result = stack.up(desired)
    assert result.objects == [], "the tenant was in the file when it was read"
    (note,) = [note for note in result.notes if "meanwhile" in note]
    assert note.endswith(f"continue with: gpupool up {desired.environment}")
    assert world.kube.api.get("v1", "Namespace", "trial-vision") is not None
    again = world.up("Namespace/trial-vision")
    assert ops(again)["Namespace/trial-vision"] == "delete"
    assert not any("meanwhile" in note for note in again.notes)


def test_without_a_terminal_only_additions_are_applied(
    world: Any, environment_variables: dict[str, str]
) -> None:
    done = gpupool(world, environment_variables, "up")
    assert done.returncode == 0, done.stderr
    assert "created" in done.stdout
    assert (done.stdout + done.stderr).count("ResourceQuota") == 1, "each object is named once"
    before = world.everything()
    world.spec["pools"][0]["sharing"]["replicas"] = 3  # replaces the device plugin's ConfigMap
    for options in ((), ("--format", "json")):
        done = gpupool(world, environment_variables, "up", *options)
        assert done.returncode == 1
        assert "deletes or replaces 1 object (ConfigMap/gpu-operator/gpupool-device-plugin" in done.stderr
        assert "--yes" in done.stderr
        assert world.everything() == before
    json.loads(done.stdout)
    done = gpupool(world, environment_variables, "up", "--yes")
    assert done.returncode == 0, done.stderr
    assert "1 replaced" in done.stdout


def test_what_failed_is_not_shown_as_done(world: Any, environment_variables: dict[str, str]) -> None:
    with no_models(world):
        for verb in (("preview",), ("up", "--yes")):
            done = gpupool(world, environment_variables, *verb)
            assert done.returncode == 1
            rows = [line for line in done.stdout.splitlines() if line.split()[-2:] == ["NodePool", "models"]]
            assert rows[0].startswith("! create"), done.stdout
