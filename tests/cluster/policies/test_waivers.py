"""A waiver of the environment file holds in the cluster and offline alike, where and while it should."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.local.control_plane import ControlPlane
from gpupool.policy.gate import documents_of, judge
from tests.cluster.policies.server import Server
from vapcheck import check, from_bodies

SHIPPED = Path(__file__).parents[3] / "environments" / "dev.yaml"
UNTIL = date(2027, 3, 31)
POLICY = "pin-images"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    written = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    waiver = {
        "policy": POLICY,
        "namespace": "legacy",
        "owner": "mlops",
        "reason": "vendor image",
        "until": UNTIL.isoformat(),
    }
    # Neither namespace is a tenant's.
    written.setdefault("policies", {}).update({"scope": "cluster", "waivers": [waiver]})
    file = tmp_path / "dev.yaml"
    file.write_text(yaml.safe_dump(written), encoding="utf-8")
    return read_plan(str(file))


def pod(namespace: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "work", "image": "vendor/work:latest"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "work", "namespace": namespace},
        "spec": spec,
    }


def test_it_holds_in_the_cluster(cluster: Any, control_plane: ControlPlane, plan: Plan) -> None:
    rendered = [
        dict(manifest.body) for manifest in generate(plan) if manifest.body["metadata"]["name"] == POLICY
    ]
    assert {body["kind"] for body in rendered} == {
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    server = Server(control_plane.kubeconfig)
    for name in ("legacy", "other"):
        cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        cluster.wait(
            f"{name} has its account", lambda n=name: cluster.get("v1", "ServiceAccount", "default", n)
        )
    for body in rendered:
        cluster.api.create(body)
    try:
        cluster.wait("the policy is in force", lambda: POLICY in server.ask("CREATE", pod("other")).message)
        assert server.ask("CREATE", pod("legacy")).message == ""
    finally:
        for body in rendered:
            cluster.api.delete(body["apiVersion"], body["kind"], body["metadata"]["name"])


def test_it_holds_offline(plan: Plan) -> None:
    pods = from_bodies([pod("legacy"), pod("other")], "pods")
    report = check(pods, policies=documents_of(plan, generate(plan)))
    denied = [one.object.namespace for one in report.findings if one.rule == POLICY and one.object]
    assert denied == ["other"]


def test_it_ends(plan: Plan) -> None:
    def expired(today: date) -> list[str]:
        return [one.rule for one in judge(plan, today).findings if one.level == "deny"]

    assert expired(UNTIL) == []
    assert expired(date(2027, 4, 1)) == ["expired-waiver"]
