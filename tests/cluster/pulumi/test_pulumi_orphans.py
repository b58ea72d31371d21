"""What an environment has made and neither its file nor the stack's state names is found and removed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.model import ENVIRONMENT_LABEL, MANAGED_BY
from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.infra.recovery import ProtectedError
from gpupool.live.drift.check import assert_environment
from gpupool.live.objects import orphans

ROOT = Path(__file__).parents[3]
OURS = {MANAGED_BY: "gpupool", ENVIRONMENT_LABEL: "trial"}


def lose_state(world: Any) -> None:
    shutil.rmtree(world.state / ".pulumi")


def config_map(name: str, labels: dict[str, str], **metadata: Any) -> dict[str, Any]:
    described = {"name": name, "namespace": "default", "labels": labels, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": described, "data": {"a": "b"}}


def there(world: Any, name: str) -> bool:
    return world.kube.api.get("v1", "ConfigMap", name, "default") is not None


def deletions(result: Any) -> set[str]:
    return {entry.resource for entry in result.objects if entry.op == "delete"}


def extra(world: Any) -> list[Any]:
    plan = read_plan(world.file)
    found = assert_environment(plan, world.kube.api, env=world.file)
    return [drift for drift in found.drifts if drift.code == "extra"]


def gpupool(world: Any, variables: dict[str, str], command: str) -> subprocess.CompletedProcess[str]:
    """A command as `assert` prints it, run without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "gpupool.cli.main", *command.split()[1:]],
        cwd=ROOT,
        env={**variables, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_pool_that_was_removed_after_the_state_was_lost_goes_with_consent(
    world: Any, environment_variables: dict[str, str]
) -> None:
    world.up()
    before = {str(manifest) for manifest in generate(read_plan(world.file))}
    lose_state(world)
    del world.spec["pools"][1]
    gone = before - {str(manifest) for manifest in generate(read_plan(world.file))}
    pools = {name.replace(" ", "/") for name in gone if name.startswith("NodePool ")}
    assert pools

    seen = world.preview()
    assert pools <= deletions(seen)
    assert "neither in its file nor in the stack's state: " in "\n".join(seen.notes)
    assert "NodePool models" in "\n".join(seen.notes)

    repairs = {drift.remediation for drift in extra(world) if drift.object.startswith("NodePool")}
    assert repairs == {f"gpupool up {world.file}"}
    refused = gpupool(world, environment_variables, repairs.pop())
    assert refused.returncode == 1
    assert "and there is no terminal to ask for confirmation; nothing was changed" in refused.stderr
    assert extra(world)
    done = gpupool(world, environment_variables, f"gpupool up {world.file} --yes")
    assert done.returncode == 0, done.stderr
    assert f"{len(deletions(seen))} deleted" in done.stdout
    assert extra(world) == []
    assert world.up().objects == []


def test_a_tenants_namespace_goes_only_by_its_name(world: Any) -> None:
    world.up()
    lose_state(world)
    world.spec.pop("tenants")
    assert "--allow-delete Namespace/trial-vision" in world.preview().refused
    with pytest.raises(ProtectedError, match="--allow-delete Namespace/trial-vision"):
        world.up()
    assert world.kube.api.get("v1", "Namespace", "trial-vision") is not None
    allowed = world.preview("Namespace/trial-vision")
    assert allowed.refused is None
    done = world.up("Namespace/trial-vision")
    assert deletions(done) == deletions(allowed)
    assert world.kube.api.get("v1", "Namespace", "trial-vision") is None
    assert world.up().objects == []


def test_what_others_have_made_or_deliver_is_no_orphan(world: Any) -> None:
    world.up()
    api = world.kube.api
    owner = api.apply(config_map("owner", {}), "somebody")[1]["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    bodies = {
        "made-by-a-tenant": (config_map("made-by-a-tenant", OURS), "kubectl"),
        "of-another": (config_map("of-another", {**OURS, ENVIRONMENT_LABEL: "other"}), "gpupool"),
        "without-labels": (config_map("without-labels", {}), "gpupool"),
        "owned": (config_map("owned", OURS, ownerReferences=[reference]), "gpupool"),
        "delivered": (config_map("delivered", OURS), "gpupool"),
        "left": (config_map("left", OURS), "gpupool"),
    }
    for body, manager in bodies.values():
        api.apply(body, manager)
    api.apply(bodies["delivered"][0], "argocd-controller", force=True)
    try:
        assert deletions(world.preview()) == {"ConfigMap/default/left"}
        assert deletions(world.up()) == {"ConfigMap/default/left"}
        assert [name for name in bodies if there(world, name)] == [name for name in bodies if name != "left"]
        assert world.up().objects == []
    finally:
        for name in (*bodies, "owner"):
            api.delete("v1", "ConfigMap", name, "default")


def test_an_object_in_the_place_of_an_orphan_is_left_alone(world: Any) -> None:
    api = world.kube.api
    api.apply(config_map("left", OURS), "gpupool")
    found = orphans.find(api, "trial").manifests
    assert [str(manifest) for manifest in found] == ["ConfigMap default/left"]
    api.delete("v1", "ConfigMap", "left", "default")
    api.apply(config_map("left", OURS), "gpupool")
    try:
        assert [problem for _, problem in orphans.remove(api, found, lambda _: None)] == [None]
        live = api.get("v1", "ConfigMap", "left", "default")
        assert live is not None
        assert "deletionTimestamp" not in live["metadata"]
    finally:
        api.delete("v1", "ConfigMap", "left", "default")


def test_destroy_removes_everything_after_the_state_was_lost(world: Any) -> None:
    before = world.everything()
    world.up()
    lose_state(world)
    done = world.destroy()
    assert {"NodePool/models", "Namespace/trial-vision"} <= deletions(done)
    assert world.everything() == before


def test_nothing_of_somebody_elses_is_taken_over_with_what_is_ours(world: Any) -> None:
    world.up()
    lose_state(world)
    world.spec["tenants"].append({"name": "two", "namespace": "theirs", "pools": {"notebooks": {"gpus": 1}}})
    world.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs"}})
    try:
        with pytest.raises(orphans.ForeignError, match="Namespace theirs already exists"):
            world.up()
    finally:
        world.kube.api.delete("v1", "Namespace", "theirs")


def created_by_a_provider(world: Any, name: str, labels: dict[str, str]) -> None:
    """As pulumi-kubernetes 4.29.0 and later create, without `upsertExistingObjects`."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    world.kube.api.request("POST", "/api/v1/namespaces", {"fieldManager": "pulumi-kubernetes"}, body)


def test_what_a_provider_has_created_plainly_is_ours_by_its_labels(world: Any) -> None:
    created_by_a_provider(world, "trial-vision", OURS)
    found = orphans.find(world.kube.api, "trial").manifests
    assert [str(manifest) for manifest in found] == ["Namespace trial-vision"]
    world.up()
    assert world.up().objects == []


@pytest.mark.parametrize("labels", [{}, {**OURS, ENVIRONMENT_LABEL: "other"}], ids=["none", "another's"])
@pytest.mark.parametrize("command", ["preview", "up"])
def test_what_another_program_has_created_is_not(world: Any, labels: dict[str, str], command: str) -> None:
    created_by_a_provider(world, "trial-vision", labels)
    before = world.everything()
    with pytest.raises(
        orphans.ForeignError, match=r"^Namespace trial-vision already exists and was not created"
    ):
        getattr(world, command)()
    assert world.everything() == before
