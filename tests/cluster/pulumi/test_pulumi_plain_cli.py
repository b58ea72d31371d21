"""The plain Pulumi CLI on the same program, stack and state, through gpupool's language host."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpupool.infra import session
from gpupool.infra.pulumi_plugins import callers
from gpupool.infra.pulumi_plugins import env as pulumi_env
from gpupool.programs import binaries

SITE_POLICIES = Path(__file__).parents[2] / "site_policies"


@pytest.fixture
def pulumi(world: Any) -> Any:
    """Run `pulumi ARGS` in a project like ours, with what `gpupool local env` prints."""
    engine = binaries.locate("pulumi")
    project = world.project()
    variables = pulumi_env.environment("local", engine)

    def run(*args: str, expect: int = 0) -> str:
        done = subprocess.run(
            ["pulumi", "--non-interactive", *args, "--stack", "trial"],
            cwd=project,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        text = done.stdout + done.stderr
        assert done.returncode == expect, text
        return text

    return run


def test_plain_pulumi_and_gpupool_share_program_and_state(world: Any, pulumi: Any) -> None:
    before = world.everything()
    pulumi("stack", "init")
    assert "to create" in pulumi("preview")
    assert world.everything() == before
    pulumi("up", "--yes", "--skip-preview")
    assert world.kube.get("karpenter.sh/v1", "NodePool", "notebooks")
    assert world.up().objects == [], "gpupool sees what pulumi made"

    world.spec["pools"][0]["nodes"]["max"] = 3
    world.up()
    world.project()
    pulumi("preview", "--expect-no-changes")

    world.kube.api.patch("karpenter.sh/v1", "NodePool", "notebooks", {"spec": {"limits": {"nodes": "9"}}})
    assert "1 to update" in pulumi("preview", "--refresh")
    pulumi("up", "--yes", "--skip-preview", "--refresh")
    pool = world.kube.get("karpenter.sh/v1", "NodePool", "notebooks")
    assert pool["spec"]["limits"]["nodes"] == "3"

    assert "protected" in pulumi("destroy", "--yes", "--skip-preview", expect=1)
    pulumi("state", "unprotect", "--all", "--yes")
    pulumi("destroy", "--yes", "--skip-preview")
    assert world.everything() == before


def test_an_exported_state_is_put_back_into_an_empty_place(world: Any, pulumi: Any, tmp_path: Path) -> None:
    made = world.up()
    export = str(tmp_path / "trial.state.json")
    pulumi("stack", "export", "--file", export)
    shutil.rmtree(world.state / ".pulumi")
    pulumi("stack", "init")
    pulumi("stack", "import", "--file", export)
    pulumi("preview", "--expect-no-changes")
    again = world.up()
    assert again.objects == []
    assert again.outcome.counts == {"same": len(made.objects)}


def test_a_wrong_file_is_reported_without_a_traceback(world: Any, pulumi: Any) -> None:
    pulumi("stack", "init")
    world.spec["pools"][0]["sharing"]["replicas"] = 1
    world.project()
    text = pulumi("preview", expect=1)
    assert "pools[0].sharing.replicas" in text
    assert "Traceback" not in text


def test_what_policy_denies_is_refused_as_by_gpupool(world: Any, pulumi: Any) -> None:
    """By the file's own policies and overrides, before anything is registered; without a traceback."""
    pulumi("stack", "init")
    shutil.copytree(SITE_POLICIES, world.project() / "policies")
    world.spec["pools"][0]["nodes"] |= {"expireAfter": "Never", "consolidateAfter": "Never"}
    world.project()
    before = world.everything()
    for command in (["preview"], ["up", "--yes", "--skip-preview"]):
        text = pulumi(*command, expect=1)
        assert "deny nodes-go: NodePool notebooks: " in text
        assert "policy refuses trial: 1 denial; " in text
        assert "Traceback" not in text
        assert "kubernetes:" not in text, "no object, not even the provider"
    assert world.everything() == before

    world.spec["policies"] = {"overrides": {"nodes-go": "warn"}}
    world.project()
    text = pulumi("preview")
    assert "warn nodes-go: NodePool notebooks: " in text
    assert "to create" in text


def test_objects_are_imported(world: Any, pulumi: Any) -> None:
    """`pulumi import` reads an object that exists, so that it can be taken over."""
    pulumi("stack", "init")
    world.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trial-old"}})
    token = "kubernetes:core/v1:Namespace"
    pulumi("import", token, "old", "trial-old", "--yes", "--generate-code=false", "--protect=false")
    state = Path(world.state, ".pulumi", "stacks", "gpupool", "trial.json").read_text()
    assert "trial-old" in state


def test_an_ordinary_installation_needs_no_language_host_of_ours(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = tmp_path / "home" / "plugins" / "resource-kubernetes-v4.34.2"
    plugins.mkdir(parents=True)
    (plugins / pulumi_env.KUBERNETES_PLUGIN).touch(mode=0o755)
    engine = tmp_path / "bin" / "pulumi"
    engine.parent.mkdir()
    engine.touch(mode=0o755)
    engine.with_name(pulumi_env.LANGUAGE_HOST).touch(mode=0o755)
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    values = pulumi_env.environment("local", engine)
    assert str(engine.parent) in values["PATH"].split(os.pathsep)
    assert not (world.state / "bin").exists()


def test_what_gpupool_up_serves_answers_its_own_account(world: Any) -> None:
    """Whatever Pulumi's library serves for a run in gpupool's process (`tests/infra/pulumi_plugins`)."""
    session.opened("trial", "local")
    assert grpc.server is callers.server
