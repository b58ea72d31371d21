"""The state that an earlier gpupool has left, its cluster and the node that it has changed are taken over.

earlier-state.json is what `gpupool up` of 2026-11-24 wrote for EARLIER, but for most policies and all times;
the cluster is made from it as that version left it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.pulumi.conftest import OWN_LABELS, changes

STATE = Path(__file__).with_name("earlier-state.json")
EARLIER: dict[str, Any] = {
    "metadata": {"name": "trial-earlier"},
    "cluster": {"platform": "static", "name": "trial-earlier"},
    "priorities": [{"name": "earlier-training", "value": 500, "level": "high"}],
    "tenants": [{"name": "vision", "namespace": "earlier-vision", "pools": {"homelab": {"gpus": 1}}}],
}
OWN_TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
"""What the node had before the earlier version came."""
FIRST = ("Namespace", "ServiceAccount", "ConfigMap")


@pytest.fixture
def earlier(homelab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The cluster as the earlier version left it, and its state in a shared place."""
    homelab.spec |= EARLIER
    homelab.kube.patch_node("k3s-gpu-0", {"spec": {"taints": [OWN_TAINT]}})
    state = json.loads(STATE.read_text(encoding="utf-8"))
    resources = [
        resource
        for resource in state["checkpoint"]["latest"]["resources"]
        if resource["type"].startswith("kubernetes:")
    ]
    for resource in sorted(resources, key=lambda resource: resource["inputs"]["kind"] not in FIRST):
        _, live = homelab.kube.api.apply(resource["inputs"], manager="gpupool", force=True)
        resource["outputs"]["metadata"]["uid"] = live["metadata"]["uid"]
    path = tmp_path / "backend" / ".pulumi" / "stacks" / "gpupool" / "trial-earlier.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(state), encoding="utf-8")
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path / 'backend'}")
    return homelab


def test_an_earlier_state_is_taken_over_and_the_node_given_back(earlier: Any) -> None:
    kube = earlier.kube
    tenant, node = kube.get("v1", "Namespace", "earlier-vision"), kube.node("k3s-gpu-0")
    done = changes(earlier.up())
    assert set(done.values()) == {"create", "update"}
    assert not [name for name in done if name.startswith(("Namespace/", "Node/"))]
    # It counts devices by claims too.
    assert done["ResourceQuota/earlier-vision/gpupool"] == "update"
    assert earlier.up().objects == []
    assert kube.get("v1", "Namespace", "earlier-vision")["metadata"]["uid"] == tenant["metadata"]["uid"]
    assert {taint["key"] for taint in kube.node("k3s-gpu-0")["spec"]["taints"]} == {
        OWN_TAINT["key"],
        "gpupool.dev/pool",
    }
    assert kube.node("k3s-gpu-0")["metadata"]["labels"] == node["metadata"]["labels"]

    earlier.destroy()
    given_back = kube.node("k3s-gpu-0")
    assert given_back["spec"]["taints"] == [OWN_TAINT]
    assert given_back["metadata"]["labels"] == OWN_LABELS
