"""What tenants must not be able to do: each attack of `attacks.yaml` is refused, by the rule that it names.
What they do all day, in `works.yaml`, is taken.

The server takes up to ten seconds to enforce new policies, so an attack that is taken is tried again.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.admission import document_of, judge_of
from tests.cluster.containment.conftest import Actor
from tests.cluster.containment.requests import PLAN, Request, request
from tests.cluster.kube import Kube
from vapcheck.judging.judge import Judge

ROOT = Path(__file__).parents[3]
ATTACKS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("attacks.yaml").read_text())
WORKS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("works.yaml").read_text())
_ENFORCED_SECONDS = 60.0
_WORDS = {
    "quota": "exceeded quota: gpupool",
    "pod-security": 'violates PodSecurity "baseline:latest"',
    "validation": "is invalid: ",
    "priority": "the integer value of priority|no PriorityClass with name",
}
"""How the server's own rules refuse, as patterns. Of a policy it gives the name."""
_VERBS = {"GET": "(get|list)", "POST": "create", "PATCH": "patch", "DELETE": "delete(collection)?"}


@pytest.fixture(scope="module")
def judge() -> Judge:
    """Every policy of the environment, to ask which of them refuse an object."""
    return judge_of(PLAN)


def stands_for(rule: str | list[str], message: str, asked: Request, judge: Judge) -> bool:
    """Whether the policy that `message` names and `rule` both refuse. The server names one of several."""
    named = re.search("ValidatingAdmissionPolicy '([^']+)'", message)
    if named is None or asked.method != "POST" or asked.body is None:
        return False
    found = judge.judge(document_of(asked.body))
    denying = {finding.rule for finding in found if finding.level == "deny"}
    return named[1] in denying and not denying.isdisjoint([rule] if isinstance(rule, str) else rule)


def refused_by(rule: str | list[str], message: str, asked: Request) -> bool:
    """Whether `message` is that rule's, or that of one of several."""
    if isinstance(rule, list):
        return any(refused_by(one, message, asked) for one in rule)
    if rule == "rbac":
        return (
            re.search(f'cannot {_VERBS[asked.method]} resource "{resource(asked.path)}"', message) is not None
        )
    policy = f"ValidatingAdmissionPolicy '{re.escape(rule)}' with binding '{re.escape(rule)}'"
    return re.search(_WORDS.get(rule, policy), message) is not None


def resource(path: str) -> str:
    """As RBAC names it: `pods/exec`."""
    parts = re.sub(r"^/(api|apis/[^/]+)/[^/]+/(namespaces/[^/]+/(?=.))?", "", path).split("/")
    return "/".join(parts[:3:2])


@pytest.mark.parametrize("number", range(len(ATTACKS)), ids=[row["name"] for row in ATTACKS])
def test_attack_is_refused(number: int, actors: dict[str, Actor], judge: Judge) -> None:
    row = ATTACKS[number]
    actor = actors[row.get("as", "vision")]
    until = time.monotonic() + _ENFORCED_SECONDS
    while True:
        asked = request(row, number, actor.namespace)
        message = actor.refusal(asked)
        named = refused_by(row["by"], message, asked) or stands_for(row["by"], message, asked, judge)
        held = named and row.get("says", "") in message
        if held or time.monotonic() > until:
            break
        time.sleep(0.5)
    assert held, f"{row['name']}: {message or 'taken'}; expected a refusal by {row['by']}"


@pytest.mark.parametrize("number", range(len(WORKS)), ids=[row["name"] for row in WORKS])
def test_work_is_taken(number: int, actors: dict[str, Actor]) -> None:
    row = WORKS[number]
    actor = actors[row.get("as", "vision")]
    assert actor.refusal(request(row, number, actor.namespace)) == ""


def test_the_documentation_says_how_many_there_are() -> None:
    for page in ("tenants", "tested"):
        assert f" {len(ATTACKS)} a" in (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), page


def conditions(kube: Kube, name: str) -> dict[str, str]:
    found = kube.get("apps/v1", "Deployment", name, "team-vision")["status"].get("conditions", [])
    return {row["type"]: row.get("message", "") for row in found}


def test_a_workload_whose_pods_are_refused_starts_no_machine(actors: dict[str, Actor], kube: Kube) -> None:
    tenant = actors["vision"]
    row: dict[str, Any] = {
        "deployment": {"replicas": 3},
        "template": {
            "nodeSelector": {"gpupool.dev/pool": "inference"},
            "tolerations": [{"operator": "Exists"}],
            "priorityClassName": "training",
        },
        "container": {"resources": {"requests": {"cpu": "88"}}},
    }
    attack = request(row, 1000, tenant.namespace)
    tenant.server.api.request(attack.method, attack.path, None, attack.body)
    message = kube.wait("its pods are refused", lambda: conditions(kube, "r1000").get("ReplicaFailure"))
    assert refused_by(["gpu-nodes-are-for-gpu-pods", "tenants-let-nodes-go"], message, attack), message
    assert not kube.pods("team-vision")
    kube.stays("no machine is started", lambda: not kube.api.list("karpenter.sh/v1", "NodeClaim"))
    tenant.server.api.delete("apps/v1", "Deployment", "r1000", "team-vision")


def test_a_pod_that_is_not_to_be_disrupted_lets_its_node_go_in_time(
    actors: dict[str, Actor], kube: Kube
) -> None:
    tenant = actors["vision"]
    row: dict[str, Any] = {
        "pod": {},
        "slice": "training",
        "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
    }
    pod = request(row, 1001, tenant.namespace)
    tenant.server.api.request(pod.method, pod.path, None, pod.body)
    kube.wait("it runs", lambda: kube.running("team-vision"))
    (claim,) = kube.api.list("karpenter.sh/v1", "NodeClaim")
    kube.api.delete("karpenter.sh/v1", "NodeClaim", claim["metadata"]["name"])
    kube.wait("its node is gone", lambda: not kube.nodes("gpupool.dev/pool=training"))


def test_a_pod_that_runs_is_deleted_within_the_allowed_grace(actors: dict[str, Actor], kube: Kube) -> None:
    """The server asks policies with the grace that will hold, which is 0 while a pod is on no node."""
    tenant = actors["vision"]
    pod = request({"pod": {}, "slice": "training"}, 1002, tenant.namespace)
    tenant.server.api.request(pod.method, pod.path, None, pod.body)
    kube.wait("it runs", lambda: kube.running("team-vision"))
    kept = Request("DELETE", f"{pod.path}/r1002", {"gracePeriodSeconds": 31536000})
    kube.wait("it can't be kept", lambda: refused_by("pods-end-in-time", tenant.refusal(kept), kept))
    assert tenant.refusal(Request("DELETE", kept.path, {"gracePeriodSeconds": 600})) == ""
