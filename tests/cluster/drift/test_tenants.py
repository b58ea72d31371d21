"""Tenants that the file takes something from: what they still use, and what is left of those that went."""

from __future__ import annotations

from typing import Any

from tests.cluster.drift.world import World


def _pod(name: str) -> dict[str, Any]:
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "work",
        "image": "example/work:1",
        "securityContext": restricted,
        "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "1Gi"}, "requests": {"memory": "1Gi"}},
    }
    taint = {"key": "gpupool.dev/pool", "value": "notebooks", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-vision", "labels": {"gpupool.dev/shares-gpu": "true"}},
        "spec": {
            "nodeSelector": {"gpupool.dev/pool": "notebooks"},
            "tolerations": [taint],
            "priorityClassName": "training.notebooks",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }


def test_what_a_tenant_has_too_much_of_and_what_somebody_took_away(world: World) -> None:
    for name in ("first", "second"):
        world.api.create(_pod(name))
    world.kube.wait("both run", lambda: len(world.kube.running("team-vision")) == 2, 60)
    world.touched = True

    def less(data: dict[str, Any]) -> None:
        data["tenants"] = [data["tenants"][0] | {"pools": {"notebooks": {"slices": 1}}}]

    world.commands.change(less)
    used = world.found("what is used", lambda drift: drift.code == "quota-exceeded")
    assert used.object == "tenant vision"
    assert used.what.startswith("it uses 2 gpu but the file grants 1: running pods stay")
    assert "raise tenants[vision].pools (notebooks) in the file" in used.remediation
    left = world.found("the namespace that is left", lambda drift: drift.object == "Namespace team-audio")
    assert left.code == "extra"
    assert "no longer has it" in left.what
    assert not [drift for drift in world.drifts() if drift.object.startswith("ResourceQuota team-audio")]
    # It holds somebody's work, so the command names it.
    assert left.remediation.endswith("--allow-delete Namespace/team-audio")
    world.run(left.remediation)
    assert {drift.code for drift in world.drifts()} == {"quota-exceeded"}
    for name in ("first", "second"):
        world.api.delete("v1", "Pod", name, "team-vision", grace=0)
    world.clean()
    _namespace_deleted(world)


def _namespace_deleted(world: World) -> None:
    """Somebody deletes the namespace that is left, and something in it holds it up."""
    holder = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": "team-vision", "finalizers": ["example.com/slow"]},
    }
    world.api.create(holder)
    world.api.delete("v1", "Namespace", "team-vision")
    going = world.found("it is being deleted", lambda drift: drift.code == "going")
    assert (going.layer, going.object) == ("tenants", "Namespace team-vision")
    assert "it is being deleted" in going.what
    world.api.patch("v1", "ConfigMap", "held", {"metadata": {"finalizers": None}}, "team-vision")
    world.run(going.remediation)
    world.clean()
